#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace kvik::text {

// What each token adds to a text, by id: part of a character too, and nothing if it is special. Joined, the bytes of tokens are the text
// that Tokenizer::decode() gives.
struct TokenBytes {
  std::vector<std::string> first;  // as the first token of a text
  std::vector<std::string> later;
};

// Throws Error(kUnsupported) if what a token adds depends on more than whether it is the first.
TokenBytes token_bytes(const Tokenizer& tokenizer);

}  // namespace kvik::text
