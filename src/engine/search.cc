#include "engine/search.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "kvik/error.h"
#include "sample/choice.h"

namespace kvik::engine {
namespace {

class BeamsSearch final : public Search {
 public:
  BeamsSearch(const SearchOptions& options, const SearchSource& source, const sample::Sampler& sampler, size_t vocab)
      : beams_(options.beams, options.start, vocab),
        max_length_(options.beams.max_length),
        source_(source.tokens),
        sampler_(sampler),
        vocab_(vocab) {}

  bool done() const override { return beams_.done(); }
  size_t n_sequences() const override { return beams_.n_beams(); }
  std::span<const TokenId> tokens(size_t sequence) const override { return beams_.tokens(sequence); }
  std::vector<sample::Hypothesis> hypotheses() const override { return beams_.hypotheses(); }

  std::span<const sample::BeamStep> advance(std::span<float> logits, sample::Workspace& workspace) override {
    for (size_t i = 0; i < beams_.n_beams(); ++i) {
      const sample::History history{beams_.tokens(i), beams_.prompt_length(), max_length_, source_};
      sampler_.log_probs(logits.subspan(i * vocab_, vocab_), history, workspace);
    }
    return beams_.advance(logits);
  }

 private:
  sample::BeamSearch beams_;
  size_t max_length_;
  std::span<const TokenId> source_;
  const sample::Sampler& sampler_;
  size_t vocab_;
};

class ChoiceSearch final : public Search {
 public:
  ChoiceSearch(const SearchOptions& options, const SearchSource& source, const sample::Sampler& sampler, size_t vocab)
      : options_(options), source_(source.tokens), sampler_(sampler), vocab_(vocab) {
    const size_t n_walks = static_cast<size_t>(std::max(1, options.beams.num_return_sequences));
    if (n_walks > 1 && sampler.options().greedy())
      throw Error(Code::kBadArgument,
                  fmt::format("{} different targets were asked for, and the greedy one is one; set --beams or --temperature", n_walks));
    if (options.start.empty() || options.start.size() >= options.beams.max_length)
      throw Error(Code::kBadArgument,
                  fmt::format("{} start tokens leave no room in a length of {}", options.start.size(), options.beams.max_length));
    for (size_t i = 0; i < n_walks; ++i) walks_.push_back({options.start, 0.0, sample::Rng(source.seed, (source.stream << 16) + i), false});
    running_ = {0};  // the start is computed once for all of them
  }

  bool done() const override { return running_.empty(); }
  size_t n_sequences() const override { return running_.size(); }
  std::span<const TokenId> tokens(size_t sequence) const override { return walks_[running_[sequence]].tokens; }

  std::span<const sample::BeamStep> advance(std::span<float> logits, sample::Workspace& workspace) override {
    const bool is_first = !started_;
    started_ = true;
    steps_.clear();
    std::vector<size_t> next;
    const size_t n_chosen = is_first ? walks_.size() : running_.size();
    for (size_t i = 0; i < n_chosen; ++i) {
      const size_t walk = is_first ? i : running_[i], row = is_first ? 0 : i;
      choose(walks_[walk], logits.subspan(row * vocab_, vocab_), workspace);
      if (walks_[walk].done) continue;
      next.push_back(walk);
      steps_.push_back({row, walks_[walk].tokens.back()});
    }
    running_ = std::move(next);
    return steps_;
  }

  std::vector<sample::Hypothesis> hypotheses() const override {
    std::vector<sample::Hypothesis> found;
    for (const Walk& walk : walks_) {
      const std::span<const TokenId> ids = std::span(walk.tokens).subspan(options_.start.size());
      const double length = std::max<double>(1, static_cast<double>(ids.size()));
      found.push_back({{ids.begin(), ids.end()}, static_cast<float>(walk.sum / std::pow(length, options_.beams.length_penalty))});
    }
    std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.score > b.score; });
    return found;
  }

 private:
  struct Walk {
    std::vector<TokenId> tokens;
    double sum = 0;  // of log-probabilities
    sample::Rng rng;
    bool done = false;
  };

  void choose(Walk& walk, std::span<const float> logits, sample::Workspace& workspace) {
    const sample::History history{walk.tokens, options_.start.size(), options_.beams.max_length, source_};
    row_.assign(logits.begin(), logits.end());
    const std::optional<TokenId> token = sampler_.sample(row_, history, walk.rng, workspace);
    if (!token) throw Error(Code::kBadModel, fmt::format("no next token can be chosen: {}", sample::why_no_choice(logits)));
    row_.assign(logits.begin(), logits.end());
    sampler_.log_probs(row_, history, workspace);
    walk.sum += row_[static_cast<size_t>(*token)];
    walk.tokens.push_back(*token);
    const std::vector<TokenId>& eos = options_.beams.eos_token_id;
    walk.done = std::ranges::find(eos, *token) != eos.end() || walk.tokens.size() >= options_.beams.max_length ||
                (options_.ends && options_.ends(std::span(walk.tokens).subspan(options_.start.size())));
  }

  SearchOptions options_;
  std::span<const TokenId> source_;
  const sample::Sampler& sampler_;
  size_t vocab_;
  bool started_ = false;
  std::vector<Walk> walks_;
  std::vector<size_t> running_;
  std::vector<sample::BeamStep> steps_;
  std::vector<float> row_;
};

}  // namespace

std::unique_ptr<Search> search_with_beams(const SearchOptions& options, const SearchSource& source, const sample::Sampler& sampler,
                                          size_t vocab) {
  return std::make_unique<BeamsSearch>(options, source, sampler, vocab);
}

std::unique_ptr<Search> search_by_choice(const SearchOptions& options, const SearchSource& source, const sample::Sampler& sampler,
                                         size_t vocab) {
  return std::make_unique<ChoiceSearch>(options, source, sampler, vocab);
}

}  // namespace kvik::engine
