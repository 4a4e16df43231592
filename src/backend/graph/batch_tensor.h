#pragma once

#include <span>

#include "analysis/signature.h"
#include "backend/graph/executor.h"
#include "tensor/tensor.h"

// Cuts and joins state tensors, which have sequences along one axis and positions along another.
namespace kvik::backend {

// One sequence of a batched state.
struct StateRow {
  Tensor tensor;
  int row = 0;
  int64_t n_dropped = 0;  // rewound positions
};

// A tensor with these rows in this order, each cut or zero-padded to `n_positions` (unchanged if the state has no positions). A state
// without a batch axis has one row.
Tensor gather_rows(const analysis::State& layout, std::span<const StateRow> rows, int64_t n_positions);

// The same rows of one value, as a request to an executor.
Selection selection_of(const analysis::State& layout, std::span<const int> rows, int64_t n_positions);

// `past` followed by `fresh` along the position axis.
Tensor append_positions(const analysis::State& layout, const Tensor& past, const Tensor& fresh);

// The state before the first step: no positions, or zeros if it has a fixed size.
Tensor empty_state(const analysis::State& layout, const std::vector<onnx::Dim>& declared, int64_t n_sequences);

}  // namespace kvik::backend
