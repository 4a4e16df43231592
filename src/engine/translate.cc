#include "engine/translate.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::engine {
namespace {

// One source under search, and the caches of its running sequences in the search's order.
struct Work {
  std::unique_ptr<Search> search;
  std::vector<std::unique_ptr<backend::Cache>> caches;
};

void check_source(std::span<const TokenId> source, const backend::Traits& traits) {
  if (source.empty()) throw Error(Code::kBadArgument, "a source is empty; at least one token was expected");
  if (traits.max_source_positions > 0 && static_cast<int>(source.size()) > traits.max_source_positions) {
    throw Error(Code::kTooLarge,
                fmt::format("a source has {} tokens; the model has positions for {}", source.size(), traits.max_source_positions));
  }
}

// The rows of every running sequence: what its cache does not hold yet.
void collect_rows(const std::vector<Work>& works, std::vector<backend::Row>& rows, std::vector<backend::Cache*>& caches) {
  rows.clear();
  caches.clear();
  for (const Work& work : works) {
    for (size_t i = 0; !work.search->done() && i < work.search->n_sequences(); ++i) {
      const std::span<const TokenId> tokens = work.search->tokens(i);
      for (size_t at = static_cast<size_t>(work.caches[i]->length()); at < tokens.size(); ++at) {
        rows.push_back({tokens[at], static_cast<int>(at), static_cast<int>(caches.size()), at + 1 == tokens.size()});
      }
      caches.push_back(work.caches[i].get());
    }
  }
}

// A long start (the prompt of a decoder) is read in chunks, all but its last part, which gives the first logits.
void read_start(backend::Backend& backend, backend::Cache& cache, std::span<const TokenId> start) {
  const auto chunk = static_cast<size_t>(std::max(1, backend.preferred_chunk()));
  std::vector<backend::Row> rows;
  backend::Logits none;
  backend::Cache* const caches[] = {&cache};
  for (size_t at = 0; start.size() - at > chunk; at += chunk) {
    rows.clear();
    for (size_t i = at; i < at + chunk; ++i) rows.push_back({start[i], static_cast<int>(i), 0, false});
    backend.run(rows, caches, none);
  }
}

// Every new sequence continues an old one: a fork of its cache, or the cache itself where it is the last to need it.
void follow(Work& work, std::span<const sample::BeamStep> steps, backend::Backend& backend) {
  std::vector<std::unique_ptr<backend::Cache>> next;
  for (size_t i = 0; i < steps.size(); ++i) {
    bool needed_again = false;
    for (size_t later = i + 1; later < steps.size(); ++later) needed_again = needed_again || steps[later].from == steps[i].from;
    std::unique_ptr<backend::Cache>& old = work.caches[steps[i].from];
    next.push_back(needed_again ? backend.fork(*old) : std::move(old));
  }
  work.caches = std::move(next);
}

std::vector<EncodedSource> encode(backend::Backend& backend, std::span<const Tensor> inputs) {
  std::vector<EncodedSource> sources;
  for (std::shared_ptr<const backend::Source>& encoded : backend.encode(inputs))
    sources.push_back({std::move(encoded), {}, static_cast<uint64_t>(sources.size())});
  return sources;
}

}  // namespace

std::vector<EncodedSource> encode_tokens(backend::Backend& backend, std::span<const std::vector<TokenId>> sources) {
  std::vector<Tensor> inputs;
  for (const std::vector<TokenId>& source : sources) {
    check_source(source, backend.traits());
    const std::vector<int64_t> ids(source.begin(), source.end());
    inputs.push_back(Tensor::of({static_cast<int64_t>(ids.size())}, ids));
  }
  std::vector<EncodedSource> encoded = encode(backend, inputs);
  for (size_t i = 0; i < encoded.size(); ++i) encoded[i].tokens = sources[i];
  return encoded;
}

std::vector<EncodedSource> encode_features(backend::Backend& backend, std::span<const Tensor> features) {
  return encode(backend, features);
}

std::vector<Hypotheses> translate(backend::Backend& backend, std::span<const EncodedSource> sources, const sample::Sampler& sampler,
                                  const TranslateOptions& options) {
  const auto vocab = static_cast<size_t>(backend.traits().vocab);
  const bool by_choice = options.search.beams.num_beams == 1 && !options.always_beams;
  std::vector<Work> works;
  for (const EncodedSource& source : sources) {
    const SearchSource about{source.tokens, options.seed, source.stream};
    works.push_back({(by_choice ? search_by_choice : search_with_beams)(options.search, about, sampler, vocab), {}});
    works.back().caches.push_back(backend.new_cache(source.encoded));
    read_start(backend, *works.back().caches.front(), works.back().search->tokens(0));
  }

  std::vector<backend::Row> rows;
  std::vector<backend::Cache*> caches;
  backend::Logits logits;
  sample::Workspace workspace;
  while (collect_rows(works, rows, caches), !rows.empty()) {
    if (options.cancelled && options.cancelled()) throw Cancelled();
    backend.run(rows, caches, logits);
    int at = 0;
    for (Work& work : works) {
      if (work.search->done()) continue;
      const size_t n = work.search->n_sequences();
      // The rows of a source lie one after another.
      const std::span<float> own(logits.row(at).data(), n * vocab);
      at += static_cast<int>(n);
      follow(work, work.search->advance(own, workspace), backend);
    }
  }
  std::vector<Hypotheses> results;
  for (const Work& work : works) results.push_back(work.search->hypotheses());
  return results;
}

std::vector<Hypotheses> translate(backend::Backend& backend, std::span<const std::vector<TokenId>> sources, const sample::Sampler& sampler,
                                  const TranslateOptions& options) {
  return translate(backend, encode_tokens(backend, sources), sampler, options);
}

}  // namespace kvik::engine
