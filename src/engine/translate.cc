#include "engine/translate.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::engine {
namespace {

// One source under search: its running beams and their caches, in the same order.
struct Search {
  sample::BeamSearch beams;
  std::vector<std::unique_ptr<backend::Cache>> caches;
  std::span<const TokenId> source;
};

void check_source(std::span<const TokenId> source, const backend::Traits& traits) {
  if (source.empty()) throw Error(Code::kBadArgument, "a source is empty; at least one token was expected");
  if (traits.max_source_positions > 0 && static_cast<int>(source.size()) > traits.max_source_positions) {
    throw Error(Code::kTooLarge,
                fmt::format("a source has {} tokens; the model has positions for {}", source.size(), traits.max_source_positions));
  }
}

// The rows of every running beam: what its cache does not hold yet.
void collect_rows(std::vector<Search>& searches, std::vector<backend::Row>& rows, std::vector<backend::Cache*>& caches) {
  rows.clear();
  caches.clear();
  for (Search& search : searches) {
    for (size_t beam = 0; !search.beams.done() && beam < search.beams.n_beams(); ++beam) {
      const std::span<const TokenId> tokens = search.beams.tokens(beam);
      for (size_t at = static_cast<size_t>(search.caches[beam]->length()); at < tokens.size(); ++at) {
        rows.push_back({tokens[at], static_cast<int>(at), static_cast<int>(caches.size()), at + 1 == tokens.size()});
      }
      caches.push_back(search.caches[beam].get());
    }
  }
}

// Every new beam continues an old one: a fork of its cache, or the cache itself where it is the last to need it.
void follow(Search& search, std::span<const sample::BeamStep> steps, backend::Backend& backend) {
  std::vector<std::unique_ptr<backend::Cache>> next;
  for (size_t i = 0; i < steps.size(); ++i) {
    bool needed_again = false;
    for (size_t later = i + 1; later < steps.size(); ++later) needed_again = needed_again || steps[later].from == steps[i].from;
    std::unique_ptr<backend::Cache>& old = search.caches[steps[i].from];
    next.push_back(needed_again ? backend.fork(*old) : std::move(old));
  }
  search.caches = std::move(next);
}

}  // namespace

std::vector<Hypotheses> translate(backend::Backend& backend, std::span<const std::vector<TokenId>> sources, const sample::Sampler& sampler,
                                  const TranslateOptions& options) {
  const auto vocab = static_cast<size_t>(backend.traits().vocab);
  std::vector<Tensor> inputs;
  for (const std::vector<TokenId>& source : sources) {
    check_source(source, backend.traits());
    const std::vector<int64_t> ids(source.begin(), source.end());
    inputs.push_back(Tensor::of({static_cast<int64_t>(ids.size())}, ids));
  }
  const std::vector<std::shared_ptr<const backend::Source>> encoded = backend.encode(inputs);
  std::vector<Search> searches;
  for (size_t i = 0; i < sources.size(); ++i) {
    searches.push_back({sample::BeamSearch(options.beams, options.start, vocab), {}, sources[i]});
    searches.back().caches.push_back(backend.new_cache(encoded[i]));
  }

  std::vector<backend::Row> rows;
  std::vector<backend::Cache*> caches;
  backend::Logits logits;
  sample::Workspace workspace;
  std::vector<float> scores;
  while (collect_rows(searches, rows, caches), !rows.empty()) {
    if (options.cancelled && options.cancelled()) throw Error(Code::kBadArgument, "translation was interrupted");
    backend.run(rows, caches, logits);
    int at = 0;
    for (Search& search : searches) {
      if (search.beams.done()) continue;
      scores.clear();
      for (size_t beam = 0; beam < search.beams.n_beams(); ++beam) {
        const std::span<float> row = logits.row(at++);
        sampler.log_probs(row, {search.beams.tokens(beam), search.beams.prompt_length(), options.beams.max_length, search.source},
                          workspace);
        scores.insert(scores.end(), row.begin(), row.end());
      }
      follow(search, search.beams.advance(scores), backend);
    }
  }
  std::vector<Hypotheses> results;
  for (const Search& search : searches) results.push_back(search.beams.hypotheses());
  return results;
}

}  // namespace kvik::engine
