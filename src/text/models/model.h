#pragma once

#include <string_view>
#include <vector>

#include "base/token.h"
#include "text/models/scratch.h"
#include "text/models/vocabulary.h"

namespace kvik::text {

// Encodes one piece of text from the pre-tokenizers. Immutable: any thread may call.
class Model {
 public:
  virtual ~Model() = default;
  // Appends the ids of `word`, which is not empty and valid UTF-8. Throws if a character is unknown and the model has
  // no unknown token.
  virtual void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The number of ids of the model; added tokens come after them.
  virtual size_t size() const { return vocabulary_.size(); }
  // Makes the model accept raw bytes instead of characters of the byte alphabet; false if it cannot.
  virtual bool accept_raw_bytes() { return false; }

 protected:
  Vocabulary vocabulary_;
};

}  // namespace kvik::text
