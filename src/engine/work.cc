#include "engine/work.h"

#include <algorithm>
#include <deque>
#include <iterator>

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

std::vector<Part> begin_parts(Work& work, size_t n_parts, size_t most_rows) {
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

// The streams of a work. Others take the places of those that have ended. Sources are encoded together, because an encoder of few rows
// spends its time reading weights: those of the parts that will run next too, or, where memory is limited, once several places are free.
class StreamRun {
 public:
  StreamRun(Work& work, Decoder& decoder, const CompleteOptions& options)
      : work_(work), decoder_(decoder), options_(options), n_join_(std::max<size_t>(1, options.n_parts / kJoinShare)) {
    const backend::Traits& traits = decoder.backend().traits();
    encodes_ahead_ = traits.exact_sources && traits.exact && decoder.backend().cache_memory().limit_bytes == 0;
    if (encodes_ahead_) n_join_ = 1;
    // Other backends run sequences of one length together, so those that begin later would run alone.
    if (!traits.exact) n_join_ = options.n_parts;
  }

  // False if it was cancelled.
  bool run() {
    while (!parts_.empty() || !waiting_.empty() || work_.next() == NextPart::kReady) {
      if (options_.cancelled && options_.cancelled()) return false;
      if (options_.n_parts - parts_.size() >= n_join_) join();
      if (decoder_.step(streams_) == StepStatus::kNoMemory) throw decoder_.no_memory();
      leave();
    }
    return true;
  }

 private:
  static constexpr size_t kJoinShare = 8;

  void join() {
    while (parts_.size() < options_.n_parts) {
      if (waiting_.empty()) encode();
      if (waiting_.empty()) return;
      for (; !waiting_.empty() && parts_.size() < options_.n_parts; waiting_.pop_front()) {
        Part& part = waiting_.front();
        if (part.stream == nullptr) part.stream = std::make_shared<Stream>(work_.stream_of(part));
        streams_.push_back(part.stream.get());
        parts_.push_back(std::move(part));
      }
    }
  }

  void encode() {
    const size_t n_free = options_.n_parts - parts_.size();
    std::vector<Part> begun = encodes_ahead_ ? begin_parts(work_, options_.n_parts, kMostSideRows) : begin_parts(work_, n_free, SIZE_MAX);
    std::vector<Part*> pointers;
    for (Part& part : begun) pointers.push_back(&part);
    encode_parts(pointers, decoder_, options_.reuse_sources ? &decoder_.source_cache() : nullptr);
    std::ranges::move(begun, std::back_inserter(waiting_));
  }

  void leave() {
    for (const Part& part : parts_) {
      if (part.stream->error) std::rethrow_exception(part.stream->error);
      if (part.stream->finish) work_.finished(part);
    }
    std::erase_if(streams_, [](const Stream* stream) { return stream->finish.has_value(); });
    std::erase_if(parts_, [](const Part& part) { return part.stream->finish.has_value(); });
  }

  Work& work_;
  Decoder& decoder_;
  const CompleteOptions& options_;
  size_t n_join_;  // places that are free before others join
  bool encodes_ahead_;
  std::deque<Part> waiting_;  // encoded
  std::vector<Part> parts_;
  std::vector<Stream*> streams_;  // of the parts
};

// False if it was cancelled.
bool embed_texts(Work& work, const CompleteOptions& options) {
  while (work.next() == NextPart::kReady) {
    if (options.cancelled && options.cancelled()) return false;
    const std::vector<Part> parts = begin_parts(work, options.n_parts, kMostSideRows);
    std::vector<const Part*> texts;
    for (const Part& part : parts) texts.push_back(&part);
    std::vector<Tensor> hidden = embed_parts(texts, *work.embedder());
    for (size_t i = 0; i < parts.size(); ++i) work.embedded(parts[i], std::move(hidden[i]));
  }
  return true;
}

}  // namespace

bool complete(Work& work, const std::shared_ptr<Decoder>& decoder, const CompleteOptions& options) {
  return work.embedder() != nullptr ? embed_texts(work, options) : StreamRun(work, *decoder, options).run();
}

}  // namespace kvik::engine
