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
// Like every append, the result is another name for the new row. Buffers that are not cut are only looked at when new rows fill them to the
// end.
class CacheWrites {
 public:
  // Labels a node that is a part of such a write; false for all others. May refuse.
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

  std::unordered_map<onnx::ValueId, onnx::ValueId> kept_;    // the past where nothing is written, zero elsewhere: the past
  std::unordered_map<onnx::ValueId, onnx::ValueId> placed_;  // new rows at their positions, zero elsewhere: the new rows
  std::unordered_set<onnx::ValueId> cut_;                    // the positions of a buffer that are in use, the new ones not written yet
  std::unordered_set<onnx::ValueId> written_back_;           // buffers of all layers, some of them written
  std::unordered_map<onnx::ValueId, onnx::ValueId> rolled_;  // the past without its oldest positions: the past
};

}  // namespace kvik::native
