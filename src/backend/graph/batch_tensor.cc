#include "backend/graph/batch_tensor.h"

#include <fmt/format.h>

#include "kvik/error.h"
#include "tensor/copy.h"

namespace kvik::backend {
namespace {

// Entries of the batch axis per sequence: several if heads are merged into it.
int64_t entries_per_sequence(const analysis::State& layout) {
  return layout.batch_axis >= 0 && layout.head_axis == layout.batch_axis ? layout.n_heads : 1;
}

size_t element_bytes(const Tensor& tensor) { return static_cast<size_t>(bits_per_element(tensor.dtype())) / 8; }

struct Piece {
  int64_t batch_from = 0, batch_to = 0;  // entry of the batch axis in source and target, if there is one
  int64_t position_to = 0;               // first position in the target
  int64_t n_batch = 0, n_positions = 0;  // extents
};

void copy_piece(const analysis::State& layout, const Tensor& source, Tensor& target, const Piece& piece) {
  BoxCopy box{source.dims(), strides_of(source.dims()), strides_of(target.dims()), element_bytes(source)};
  int64_t from = 0, to = 0;
  if (layout.batch_axis >= 0) {
    const auto batch = static_cast<size_t>(layout.batch_axis);
    box.extents[batch] = piece.n_batch;
    from = piece.batch_from * box.source_strides[batch];
    to = piece.batch_to * box.target_strides[batch];
  }
  if (layout.position_axis >= 0) {
    const auto position = static_cast<size_t>(layout.position_axis);
    box.extents[position] = piece.n_positions;
    to += piece.position_to * box.target_strides[position];
  }
  const auto step = static_cast<int64_t>(box.element_bytes);
  copy_box(box, source.bytes().data() + from * step, target.mutable_bytes().data() + to * step);
}

}  // namespace

Tensor gather_rows(const analysis::State& layout, std::span<const StateRow> rows, int64_t n_positions) {
  const int64_t entries = entries_per_sequence(layout);
  Dims dims = rows.front().tensor.dims();
  if (layout.batch_axis >= 0) dims[static_cast<size_t>(layout.batch_axis)] = static_cast<int64_t>(rows.size()) * entries;
  if (layout.position_axis >= 0) dims[static_cast<size_t>(layout.position_axis)] = n_positions;
  Tensor result(rows.front().tensor.dtype(), dims);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t available = layout.position_axis >= 0 ? rows[i].tensor.dim(layout.position_axis) : 0;
    // If the newest position is the last one, the remaining positions move back to the end.
    const int64_t moved = layout.newest_last ? std::min(rows[i].n_dropped, n_positions) : 0;
    copy_piece(layout, rows[i].tensor, result,
               {rows[i].row * entries, static_cast<int64_t>(i) * entries, moved, entries, std::min(n_positions, available) - moved});
  }
  return result;
}

Selection selection_of(const analysis::State& layout, std::span<const int> rows, int64_t n_positions) {
  const int64_t entries = entries_per_sequence(layout);
  Selection selection{.axis = layout.batch_axis};
  for (const int row : rows) {
    for (int64_t i = 0; i < entries; ++i) selection.entries.push_back(row * entries + i);
  }
  const bool cuts = layout.position_axis >= 0 && layout.growth != analysis::Growth::kFixed;
  if (cuts) selection.position_axis = layout.position_axis, selection.n_positions = n_positions;
  return selection;
}

Tensor append_positions(const analysis::State& layout, const Tensor& past, const Tensor& fresh) {
  const auto position = static_cast<size_t>(layout.position_axis);
  Dims dims = past.dims();
  dims[position] += fresh.dims()[position];
  const int64_t n_batch = layout.batch_axis >= 0 ? dims[static_cast<size_t>(layout.batch_axis)] : 1;
  Tensor result(past.dtype(), dims);
  copy_piece(layout, past, result, {0, 0, 0, n_batch, past.dims()[position]});
  copy_piece(layout, fresh, result, {0, 0, past.dims()[position], n_batch, fresh.dims()[position]});
  return result;
}

Tensor empty_state(const analysis::State& layout, const std::vector<onnx::Dim>& declared, int64_t n_sequences) {
  Dims dims(declared.size(), 0);
  for (size_t axis = 0; axis < declared.size(); ++axis) {
    const auto is = [&](int which) { return which == static_cast<int>(axis); };
    if (is(layout.batch_axis)) {
      dims[axis] = n_sequences * entries_per_sequence(layout);
    } else if (is(layout.position_axis)) {
      dims[axis] = layout.growth == analysis::Growth::kFixed ? layout.capacity : 0;
    } else if (declared[axis].value >= 0) {
      dims[axis] = declared[axis].value;
    } else if (is(layout.head_axis)) {
      dims[axis] = layout.n_heads;
    } else if (is(layout.feature_axis)) {
      dims[axis] = layout.head_dim;
    } else {
      throw Error(Code::kBadModel,
                  fmt::format("the size of axis '{}' of a state is neither in the graph nor in the config files", declared[axis].symbol));
    }
  }
  return {layout.dtype, dims};
}

}  // namespace kvik::backend
