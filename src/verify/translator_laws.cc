#include "verify/translator_laws.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::laws {
namespace {

using LogitsRow = std::vector<float>;
using engine::Decoder;
using engine::EncodedSource;
using engine::FoundTargets;
using engine::Sequence;
using engine::TargetOptions;
using Encoded = std::shared_ptr<const backend::Source>;

void require_room(AppendStatus status) {
  if (status != AppendStatus::kDone) throw Error(Code::kTooLarge, "the target does not fit into the context");
}

// The logits after the last of `tokens`.
LogitsRow feed(Sequence& sequence, std::span<const TokenId> tokens) {
  require_room(sequence.append(tokens));
  return {sequence.logits().begin(), sequence.logits().end()};
}

class TranslatorVerifier {
 public:
  TranslatorVerifier(std::shared_ptr<backend::Backend> backend, const TranslatorLaws& options, const Watch& watch)
      : backend_(std::move(backend)),
        decoder_(std::make_shared<Decoder>(backend_)),
        options_(options),
        book_(watch),
        tokens_(options.start) {
    tokens_.insert(tokens_.end(), options.target.begin(), options.target.end());
    // The expected logits: every source encoded alone, every beginning of the target computed in one run, from an empty cache.
    for (const Tensor& source : options.sources) {
      encoded_.push_back(backend_->encode({&source, 1}).front());
      fresh_.emplace_back();
      for (size_t n = options.start.size(); n <= tokens_.size() && !book_.cancelled(); ++n) {
        Sequence sequence = new_sequence(encoded_.size() - 1);
        fresh_.back().push_back(feed(sequence, tokens(0, n)));
      }
    }
  }

  std::vector<Law> run() {
    const double tolerance = options_.tolerance;
    const backend::Traits& traits = backend_->traits();
    book_.law("cached = uncached", tolerance, [&] { cached_is_uncached(); });
    book_.law("any split of the target", tolerance, [&] { any_split(); });
    if (traits.can_rewind) book_.law("rewound = never happened", tolerance, [&] { rewound_never_happened(); });
    if (traits.can_fork) book_.law("forked = fresh", tolerance, [&] { forked_is_fresh(); });
    book_.law("batch = alone", tolerance, [&] { batch_is_alone(); });
    book_.law("beam of width 1 = greedy", tolerance, [&] { narrow_beam_is_greedy(); });
    if (backend_->source_work().encoded > 0) book_.law("encoder run once", tolerance, [&] { encoder_runs_once(); });
    for (const Peer& peer : options_.peers) {
      if (peer.information) {
        book_.measure(peer.law, [&] { agrees(peer); });
      } else if (peer.row_by_row) {
        book_.measure(peer.law + ", all rows in one run", [&] { agrees(peer); });
      } else {
        book_.law(peer.law, peer.tolerance, [&] { agrees(peer); });
      }
    }
    return book_.take();
  }

 private:
  // After the first `n` tokens of start and target.
  const LogitsRow& fresh(size_t source, size_t n) const { return fresh_[source][n - options_.start.size()]; }
  std::span<const TokenId> tokens(size_t from, size_t to) const { return std::span(tokens_).subspan(from, to - from); }
  size_t n_start() const { return options_.start.size(); }
  Sequence new_sequence(size_t source) const { return {decoder_, 0, encoded_[source]}; }

  void cached_is_uncached() {
    for (size_t s = 0; s < encoded_.size(); ++s) {
      Sequence sequence = new_sequence(s);
      for (size_t n = 0; n < tokens_.size(); ++n) {
        const LogitsRow found = feed(sequence, tokens(n, n + 1));
        if (n + 1 < n_start()) continue;
        book_.compare(found, fresh(s, n + 1), fmt::format("source {}, token by token, after {} of {}", s + 1, n + 1, tokens_.size()));
      }
    }
  }

  void any_split() {
    for (size_t split = 1; split < tokens_.size(); ++split) {
      Sequence sequence = new_sequence(0);
      feed(sequence, tokens(0, split));
      book_.compare(feed(sequence, tokens(split, tokens_.size())), fresh(0, tokens_.size()),
                    fmt::format("the target split after {} of {} tokens", split, tokens_.size()));
    }
  }

  void rewound_never_happened() {
    for (size_t keep = 1; keep < tokens_.size(); ++keep) {
      Sequence sequence = new_sequence(0);
      feed(sequence, tokens_);
      sequence.rewind(static_cast<int>(keep));
      book_.compare(feed(sequence, tokens(keep, tokens_.size())), fresh(0, tokens_.size()),
                    fmt::format("rewound to {} of {} tokens", keep, tokens_.size()));
    }
  }

  void forked_is_fresh() {
    for (size_t at = 1; at < tokens_.size(); ++at) {
      Sequence trunk = new_sequence(0);
      feed(trunk, tokens(0, at));
      Sequence branch = trunk.fork();
      const TokenId other = (tokens_[at] + 1) % backend_->traits().vocab;
      feed(branch, {&other, 1});
      book_.compare(feed(trunk, tokens(at, tokens_.size())), fresh(0, tokens_.size()), fmt::format("the trunk of a fork at {} tokens", at));
    }
  }

  void batch_is_alone() {
    const std::vector<Encoded> together = backend_->encode(options_.sources);
    std::vector<Sequence> sequences;
    std::vector<Sequence*> pointers;
    sequences.reserve(together.size());
    for (const Encoded& source : together) pointers.push_back(&sequences.emplace_back(decoder_, 0, source));
    for (size_t n = 1; n <= tokens_.size(); ++n) {
      require_room(Sequence::append_each(pointers, std::vector<TokenId>(pointers.size(), tokens_[n - 1])));
      for (size_t s = 0; s < sequences.size() && n >= n_start(); ++s)
        book_.compare(sequences[s].logits(), fresh(s, n),
                      fmt::format("source {} in a batch of {}, after {} tokens", s + 1, sequences.size(), n));
    }
  }

  std::vector<EncodedSource> sources() const {
    std::vector<EncodedSource> sources;
    for (const Encoded& encoded : encoded_) sources.push_back({encoded, {}, sources.size()});
    return sources;
  }

  TargetOptions searching(int beams) const {
    TargetOptions options;
    options.start = options_.start;
    options.beams = options_.beams;
    options.beams.num_beams = beams;
    options.beams.num_return_sequences = 1;
    return options;
  }

  void narrow_beam_is_greedy() {
    TargetOptions options = searching(1);
    const std::vector<FoundTargets> greedy = engine::find_targets(decoder_, options_.sampler, sources(), options);
    options.always_beams = true;
    const std::vector<FoundTargets> searched = engine::find_targets(decoder_, options_.sampler, sources(), options);
    for (size_t s = 0; s < greedy.size(); ++s)
      book_.compare_ids(searched[s].targets.front().ids, greedy[s].targets.front().ids, fmt::format("source {}", s + 1));
  }

  void encoder_runs_once() {
    const backend::SourceWork before = backend_->source_work();
    std::vector<EncodedSource> encoded;
    for (Encoded& source : backend_->encode(options_.sources)) encoded.push_back({std::move(source), {}, encoded.size()});
    engine::find_targets(decoder_, options_.sampler, encoded, searching(std::max(2, options_.beams.num_beams)));
    const int64_t n_encoded = backend_->source_work().encoded - before.encoded;
    const auto n_sources = static_cast<int64_t>(encoded.size());
    book_.require(n_encoded == n_sources, fmt::format("{} sources went through the encoder for {}", n_encoded, n_sources));
  }

  void agrees(const Peer& peer) {
    for (size_t s = 0; s < options_.sources.size(); ++s) {
      for (size_t n = n_start(); n <= tokens_.size(); n += std::max<size_t>(1, options_.target.size() / 2)) {
        const LogitsRow expected = peer.instead != nullptr ? logits_of(peer.instead, s, n) : fresh(s, n);
        book_.compare(logits_of(peer.backend, s, n), expected, fmt::format("source {}, {} tokens", s + 1, n));
      }
    }
  }

  LogitsRow logits_of(const std::shared_ptr<backend::Backend>& backend, size_t source, size_t n) const {
    Sequence sequence(backend, 0, backend->encode({&options_.sources[source], 1}).front());
    return feed(sequence, tokens(0, n));
  }

  std::shared_ptr<backend::Backend> backend_;
  std::shared_ptr<Decoder> decoder_;
  const TranslatorLaws& options_;
  LawBook book_;
  std::vector<TokenId> tokens_;  // start and target
  std::vector<Encoded> encoded_;
  std::vector<std::vector<LogitsRow>> fresh_;  // per source, per number of tokens from the start on
};

}  // namespace

std::vector<Law> verify_translator(std::shared_ptr<backend::Backend> backend, const TranslatorLaws& options, const Watch& watch) {
  if (options.sources.empty() || options.start.empty() || options.target.size() < 2)
    throw Error(Code::kBadArgument, "a source, a start token and a target of at least 2 tokens are needed to verify anything");
  return TranslatorVerifier(std::move(backend), options, watch).run();
}

}  // namespace kvik::laws
