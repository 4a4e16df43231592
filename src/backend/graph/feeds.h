#pragma once

#include "analysis/signature.h"
#include "backend/backend.h"

namespace kvik::backend {

// The shape of one run of a decoder file: `n_sequences` sequences of the same past get the same number of new tokens.
struct StepShape {
  int64_t n_sequences = 1;
  int64_t n_past = 0;
  int64_t n_new = 1;
  bool only_last_logits = true;
};

// The tensor for an input that depends on the shape alone (masks, positions, lengths, switches).
// Throws Error(kUnsupported) for a role that is none of these.
Tensor shape_feed(const analysis::Port& port, const StepShape& step);

// Token ids [n_sequences, n_new] in the port's own type and rank.
Tensor token_feed(const analysis::Port& port, std::span<const TokenId> tokens, const StepShape& step);

// True for roles that shape_feed knows.
bool is_shape_role(analysis::Role role);

}  // namespace kvik::backend
