#pragma once

#include <string_view>
#include <vector>

#include "base/token.h"
#include "text/scratch.h"
#include "text/vocabulary.h"

namespace kvik::text {

// Turns one piece of text, as the pre-tokenizers cut it, into ids. Immutable: any thread may call.
class Model {
 public:
  virtual ~Model() = default;
  // Appends the ids of `word`, which is not empty and valid UTF-8. Throws where a character is unknown and the model says nothing of it.
  virtual void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // How many ids the model itself takes; what is added counts on from here.
  virtual size_t size() const { return vocabulary_.size(); }
  // Asks the model to take raw bytes instead of the characters of the byte alphabet; false where it cannot.
  virtual bool take_bytes() { return false; }

 protected:
  Vocabulary vocabulary_;
};

}  // namespace kvik::text
