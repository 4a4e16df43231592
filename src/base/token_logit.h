#pragma once

#include "base/token.h"

namespace kvik {

// One of the largest logits of a row.
struct TokenLogit {
  float logit;
  TokenId id;
};

}  // namespace kvik
