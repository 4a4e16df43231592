#pragma once

#include <span>

#include "analysis/signature.h"
#include "backend/graph/executor.h"
#include "tensor/tensor.h"

// State tensors hold a batch of sequences along one axis and their positions along another. These cut and join them.
namespace kvik::backend {

// One sequence's share of a batched state.
struct StateRow {
  Tensor tensor;
  int row = 0;
};

// A tensor with these rows in this order, each cut to its first `n_positions` (all of it where the state has no positions).
// Positions that a shorter row lacks are zero; `n_positions` is the longest.
Tensor gather_rows(const analysis::State& layout, std::span<const StateRow> rows, int64_t n_positions);

// The same rows of one value, for an executor to cut and join.
Selection selection_of(const analysis::State& layout, std::span<const int> rows, int64_t n_positions);

// `past` followed by `fresh` along the positions.
Tensor append_positions(const analysis::State& layout, const Tensor& past, const Tensor& fresh);

// The state before the first step: no positions, or zeros where there is a capacity or no positions at all.
Tensor empty_state(const analysis::State& layout, const std::vector<onnx::Dim>& declared, int64_t n_sequences);

}  // namespace kvik::backend
