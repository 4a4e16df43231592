#pragma once

#include <span>

#include "base/token.h"
#include "constrain/matcher.h"

namespace kvik::sample {

// What a sequence is so far, as the processors of its logits see it. Views: the owner keeps the tokens alive during the call.
struct History {
  std::span<const TokenId> tokens;              // the prompt (of a decoder: what its start tokens are), then what was generated
  size_t prompt_length = 0;                     // how many of them are the prompt
  size_t max_length = 0;                        // the length, prompt included, at which generation ends; 0: none known
  std::span<const TokenId> source = {};         // what an encoder read; empty if there is none
  const constrain::Allowed* allowed = nullptr;  // what a constraint allows; null: all tokens

  std::span<const TokenId> generated() const { return tokens.subspan(prompt_length); }
};

}  // namespace kvik::sample
