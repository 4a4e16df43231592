#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/native/graph/axes.h"
#include "backend/native/graph/flat_graph.h"

namespace kvik::native {

// What the compiler knows of one value.
struct Label {
  enum class Kind : uint8_t {
    kUnset,      // not reached
    kConstant,   // depends on weights only
    kAuxiliary,  // depends on shapes, positions, masks and lengths only: never analysed, only evaluated
    kRow,        // depends on tokens, on the past or on the source: has axes
  };
  Kind kind = Kind::kUnset;
  DType dtype = DType::kUndefined;                             // kConstant and kRow; f16, bf16 and f64 are computed and labeled as f32
  Dims dims;                                                   // kConstant
  Axes axes;                                                   // kRow
  bool on_tokens = false, on_past = false, on_source = false;  // kRow: what it depends on
  bool is_score = false;    // derived from a product of queries and keys: belongs to an attention, is not emitted
  bool is_last = false;     // of the last row of a call only: what combines it with other rows does not work row by row
  bool is_empty = false;    // without elements: a slice of nothing, which a concatenation leaves out; its axes are not known
  bool token_free = false;  // kAuxiliary, though it is computed from tokens: probing showed that they do not matter
  int poison = -1;          // index into Labels::reasons: the shape is known, the content does not depend on the row alone
};

// All labels of a graph, by value.
struct Labels {
  const FlatGraph* flat = nullptr;
  std::vector<Label> of_value;
  std::vector<std::string> reasons;
  std::map<onnx::ValueId, onnx::NodeId> query_key;  // score values that are products of queries and keys, and the product's node
  bool keys_on_left = false;  // of a product of rows with rows, in a graph without a past: which rows ask cannot be told before
  bool one_token = false;     // batch and new have been dropped from all axes: right token by token, proves nothing about prompts
  bool one_sequence = false;  // batch has been dropped from all axes: the file declares that there is one sequence

  const Label& operator[](onnx::ValueId id) const { return of_value[static_cast<size_t>(id)]; }
  Label& operator[](onnx::ValueId id) { return of_value[static_cast<size_t>(id)]; }
};

inline CallForm call_form(const Labels& labels) {
  return {labels.flat->has_past, labels.one_token, labels.one_sequence, labels.flat->buffer, labels.flat->one_position};
}

}  // namespace kvik::native
