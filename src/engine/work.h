#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/embedder.h"
#include "engine/decoder.h"

namespace kvik::engine {

// An independent unit of work: a stream of the decode loop, which may need the encoder first, or a text for an embedder.
struct Part {
  size_t index = 0;                               // assigned by the work
  Tensor input;                                   // for the encoder, as for Backend::encode(); undefined: none
  std::shared_ptr<const backend::Source> source;  // the encoder's output for `input`, or set by the work
  std::vector<TokenId> text;                      // for the embedder
  std::shared_ptr<Stream> stream;                 // set by the work, or created by Work::stream_of() when the part runs
};

enum class NextPart {
  kReady,
  kLater,  // after a running part has ended
  kNone,
};

// A request in parts: one prompt, sources to translate, windows of a recording, texts to embed. A scheduler runs the parts of many requests
// together; complete() runs those of one. Used by one thread at a time.
class Work {
 public:
  virtual ~Work() = default;

  virtual NextPart next() const = 0;
  // Rows that the encoder or embedder computes for the next part, in one call; 0: none.
  virtual size_t next_rows() const { return 0; }
  virtual Part begin() = 0;  // the next part, if it is ready

  // The stream of a part whose source has been encoded.
  virtual Stream stream_of(const Part& part);
  // Not null: all parts are texts for this embedder and have no streams.
  virtual backend::Embedder* embedder() const { return nullptr; }
  virtual void embedded(const Part& /*part*/, Tensor /*hidden*/) {}

  virtual void generated(const Part& /*part*/) {}  // its stream has generated a token
  virtual void finished(const Part& part) = 0;     // its stream has ended, but not by cancellation; not called for texts
};

// Rows that an encoder or embedder computes together; a longer input runs alone.
inline constexpr size_t kMostSideRows = 512;

// Encodes the inputs of parts without a source, in one call. `cache`: see encode_features().
void encode_parts(std::span<Part* const> parts, Decoder& decoder, SourceCache* cache);
// Hidden states of the parts' texts, in one call.
std::vector<Tensor> embed_parts(std::span<const Part* const> parts, backend::Embedder& embedder);

struct CompleteOptions {
  size_t n_parts = 1;                         // parts that run together
  bool reuse_sources = true;                  // cache encoded sources
  std::function<bool()> cancelled = nullptr;  // polled between steps
};

// Runs work to its end on the calling thread. False if it was cancelled. Throws the first error.
bool complete(Work& work, const std::shared_ptr<Decoder>& decoder, const CompleteOptions& options);

}  // namespace kvik::engine
