#include "engine/work.h"

#include "engine/sources.h"
#include "kvik/error.h"

namespace kvik::engine {

Stream Work::stream_of(const Part& /*part*/) { throw Error(Code::kInternal, "a part without a source has its own stream"); }

void encode_parts(std::span<Part* const> parts, Decoder& decoder, SourceCache* cache) {
  std::vector<Tensor> inputs;
  for (const Part* part : parts) {
    if (part->input.defined() && part->source == nullptr) inputs.push_back(part->input);
  }
  if (inputs.empty()) return;
  std::vector<EncodedSource> encoded = encode_features(decoder.backend(), inputs, cache);
  size_t n_taken = 0;
  for (Part* part : parts) {
    if (part->input.defined() && part->source == nullptr) part->source = std::move(encoded[n_taken++].encoded);
  }
}

std::vector<Tensor> embed_parts(std::span<const Part* const> parts, backend::Embedder& embedder) {
  std::vector<std::vector<TokenId>> texts;
  for (const Part* part : parts) texts.push_back(part->text);
  return embedder.run(texts);
}

namespace {

std::vector<Part> begin_parts(Work& work, size_t n_parts) {
  const size_t most_rows = work.embedder() != nullptr ? kMostSideRows : SIZE_MAX;  // an encoder divides its inputs itself
  std::vector<Part> parts;
  size_t n_rows = 0;
  while (parts.size() < n_parts && work.next() == NextPart::kReady) {
    const size_t n_next = work.next_rows();
    if (!parts.empty() && n_next > most_rows - std::min(most_rows, n_rows)) break;
    n_rows += n_next;
    parts.push_back(work.begin());
  }
  return parts;
}

// False if some were cancelled.
bool complete_streams(Work& work, std::span<Part> parts, Decoder& decoder, const CompleteOptions& options) {
  std::vector<Part*> pointers;
  for (Part& part : parts) pointers.push_back(&part);
  encode_parts(pointers, decoder, options.reuse_sources ? &decoder.source_cache() : nullptr);
  std::vector<Stream*> streams;
  for (Part& part : parts) {
    if (part.stream == nullptr) part.stream = std::make_shared<Stream>(work.stream_of(part));
    streams.push_back(part.stream.get());
  }
  decoder.finish(streams, options.cancelled);
  bool all_done = true;
  for (const Part& part : parts) {
    if (part.stream->finish == Finish::kCancelled) {
      all_done = false;
    } else {
      work.finished(part);
    }
  }
  return all_done;
}

}  // namespace

bool complete(Work& work, const std::shared_ptr<Decoder>& decoder, const CompleteOptions& options) {
  while (work.next() == NextPart::kReady) {
    if (options.cancelled && options.cancelled()) return false;
    std::vector<Part> parts = begin_parts(work, options.n_parts);
    if (work.embedder() == nullptr) {
      if (!complete_streams(work, parts, *decoder, options)) return false;
      continue;
    }
    std::vector<const Part*> texts;
    for (const Part& part : parts) texts.push_back(&part);
    std::vector<Tensor> hidden = embed_parts(texts, *work.embedder());
    for (size_t i = 0; i < parts.size(); ++i) work.embedded(parts[i], std::move(hidden[i]));
  }
  return true;
}

}  // namespace kvik::engine
