#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/embedder.h"
#include "engine/decoder.h"

namespace kvik::engine {

// A piece of work that runs by itself: a stream of the decode loop, for which an encoder may have to read something first, or a text for an
// embedder.
struct Part {
  size_t index = 0;                               // as the work numbers them
  Tensor input;                                   // for the encoder: as for Backend::encode(); not defined: none
  std::shared_ptr<const backend::Source> source;  // what the encoder made of it, or did before
  std::vector<TokenId> text;                      // for the embedder
  std::shared_ptr<Stream> stream;                 // set by the work, or made by Work::stream_of() when it runs
};

enum class NextPart {
  kReady,
  kLater,  // after one that runs has ended
  kNone,
};

// What a request has to compute, part by part: one prompt, sources to translate, windows of a recording, texts to embed. A scheduler runs
// the parts of many requests together, complete() those of one. Used by one thread at a time.
class Work {
 public:
  virtual ~Work() = default;

  virtual NextPart next() const = 0;
  // Rows that the encoder or embedder computes for the next part, all at once; 0: none.
  virtual size_t next_rows() const { return 0; }
  virtual Part begin() = 0;  // the next part, if it is ready

  // Of a part that needs a source, when that is encoded.
  virtual Stream stream_of(const Part& part);
  // Not null: all parts are texts for it, and have no streams.
  virtual backend::Embedder* embedder() const { return nullptr; }
  virtual void embedded(const Part& /*part*/, Tensor /*hidden*/) {}

  virtual void generated(const Part& /*part*/) {}  // its stream has chosen a token
  virtual void finished(const Part& part) = 0;     // its stream has ended by itself; not called for texts
};

// Rows that an encoder or embedder computes together; a longer input runs alone.
inline constexpr size_t kMostSideRows = 512;

// Encodes what has not been encoded, in one call. `cache`: see encode_features().
void encode_parts(std::span<Part* const> parts, Decoder& decoder, SourceCache* cache);
// Hidden states of their texts, in one call.
std::vector<Tensor> embed_parts(std::span<const Part* const> parts, backend::Embedder& embedder);

struct CompleteOptions {
  size_t n_parts = 1;                         // that run together
  bool reuse_sources = true;                  // keep what was encoded, and look it up
  std::function<bool()> cancelled = nullptr;  // polled between steps
};

// Runs work to its end on the calling thread. False if it was cancelled. Throws the first error.
bool complete(Work& work, const std::shared_ptr<Decoder>& decoder, const CompleteOptions& options);

}  // namespace kvik::engine
