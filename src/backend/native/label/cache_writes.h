#pragma once

#include <unordered_map>
#include <unordered_set>

#include "backend/native/graph/refusal.h"
#include "onnx/graph.h"

namespace kvik::native {

class NodeLabeler;

// Caches of fixed size that are written without a scatter:
//   past * (1 - hits) + one_hot @ new     what is new is placed by a product with a one-hot matrix
//   Concat(past[n_new:], new)             the oldest positions move out, the newest one is the last (a roll)
//   ScatterND(past[:total], …, new)       the positions in use are cut out and the new ones written at their end (FlatGraph::cut_buffer)
// Like every append, the result is an alias of the new row. Buffers that are not sliced are only probed when new rows fill them to the end.
class CacheWrites {
 public:
  // Labels a node that is part of such a write; returns false for all others. May refuse.
  Expected<bool> label(NodeLabeler& op);

  bool is_rolled(onnx::ValueId value) const { return rolled_.contains(value); }

 private:
  Expected<bool> keep_past(NodeLabeler& op);
  Expected<bool> place_rows(NodeLabeler& op);
  Expected<bool> add_rows(NodeLabeler& op);
  Expected<bool> drop_oldest(NodeLabeler& op);
  Expected<bool> append_rows(NodeLabeler& op);
  Expected<bool> cut(NodeLabeler& op);
  Expected<bool> write_to_cut(NodeLabeler& op);
  Expected<bool> write_back(NodeLabeler& op);
  Expected<> append(NodeLabeler& op, onnx::ValueId past, size_t fresh);

  std::unordered_map<onnx::ValueId, onnx::ValueId> kept_;    // the past, zero where new rows are written: counts as the past
  std::unordered_map<onnx::ValueId, onnx::ValueId> placed_;  // new rows at their positions, zero elsewhere: counts as the new rows
  std::unordered_set<onnx::ValueId> cut_;                    // the positions of a buffer that are in use, the new ones not written yet
  std::unordered_set<onnx::ValueId> written_back_;           // buffers of all layers, some of them written
  std::unordered_map<onnx::ValueId, onnx::ValueId> rolled_;  // the past without its oldest positions: counts as the past
};

}  // namespace kvik::native
