#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/native/graph/axes.h"
#include "backend/native/graph/flat_graph.h"

namespace kvik::native {

// What the compiler has derived about one value.
struct Label {
  enum class Kind : uint8_t {
    kUnset,      // not reached
    kConstant,   // depends only on weights
    kAuxiliary,  // depends only on shapes, positions, masks and lengths: never analyzed, only evaluated
    kRow,        // depends on tokens, on the past or on the source: has axes
  };
  Kind kind = Kind::kUnset;
  DType dtype = DType::kUndefined;                             // kConstant and kRow; f16, bf16 and f64 are computed and labeled as f32
  Dims dims;                                                   // kConstant
  Axes axes;                                                   // kRow
  bool on_tokens = false, on_past = false, on_source = false;  // kRow: what it depends on
  bool is_score = false;    // derived from a product of queries and keys: belongs to an attention, is not emitted
  bool is_last = false;     // only of the last row of a call: cannot be combined with other rows
  bool is_empty = false;    // has no elements: an empty slice, which a concatenation skips; its axes are unknown
  bool token_free = false;  // kAuxiliary although computed from tokens: probing showed that it does not depend on them
  int poison = -1;          // index into Labels::reasons: the shape is known, but the content does not depend only on the row
};

// All labels of a graph, by value.
struct Labels {
  const FlatGraph* flat = nullptr;
  std::vector<Label> of_value;
  std::vector<std::string> reasons;
  std::map<onnx::ValueId, onnx::NodeId> query_key;  // score values that are products of queries and keys, and the product's node
  bool keys_on_left = false;  // a product of rows with rows in a graph without a past: which operand has the queries is not known yet
  bool one_token = false;     // batch and new were dropped from all axes: proved only for one token at a time
  bool one_sequence = false;  // batch was dropped from all axes, because the file declares a batch of one

  const Label& operator[](onnx::ValueId id) const { return of_value[static_cast<size_t>(id)]; }
  Label& operator[](onnx::ValueId id) { return of_value[static_cast<size_t>(id)]; }
};

inline CallForm call_form(const Labels& labels) {
  return {labels.flat->has_past, labels.one_token, labels.one_sequence, labels.flat->buffer, labels.flat->one_position};
}

}  // namespace kvik::native
