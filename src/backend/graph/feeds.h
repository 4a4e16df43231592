#pragma once

#include "analysis/signature.h"
#include "backend/backend.h"

namespace kvik::backend {

// The shape of one run of a decoder file: `n_sequences` sequences with the same past length and the same number of new tokens.
struct StepShape {
  int64_t n_sequences = 1;
  int64_t n_past = 0;
  int64_t n_new = 1;
  bool only_last_logits = true;
  bool one_position = false;  // feed inputs with unclear_count only the position of the first new token
};

// The tensor for an input that depends only on the shape (masks, positions, lengths, branch flags). Throws Error(kUnsupported) for other
// roles.
Tensor shape_feed(const analysis::Port& port, const StepShape& step);

// Token ids [n_sequences, n_new] in the port's type and rank.
Tensor token_feed(const analysis::Port& port, std::span<const TokenId> tokens, const StepShape& step);

// Whether shape_feed supports the role.
bool is_shape_role(analysis::Role role);

}  // namespace kvik::backend
