#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/native/plan/owned_graph.h"

// The constants of a model that a plan loads, and the matrices built from them. None of them has been read yet.
namespace kvik::native {

// The location of one constant: in the model's files, or an expression over them.
struct ModelTensor {
  std::string name;                              // in the model, for messages
  onnx::TensorData data;                         // without a name; unused if there is an expression
  std::shared_ptr<const OwnedGraph> expression;  // of initializers only, with one output; null: `data`
  bool in_file = false;                          // `data` is in a mapped file, whose pages may be dropped
};

// How rows are quantized for a matmul.
enum class Activations : uint8_t {
  kFloats,
  kBlocks,  // int8 in blocks of 128, each with a scale
  kBytes,   // as DynamicQuantizeLinear does, each row by itself, or as QuantizeLinear does (PlanWeight::row_scale)
};

// How codes are dequantized.
struct Quantization {
  enum class Kind : uint8_t {
    kNone,
    kBlocks,      // MatMulNBits
    kBlockTable,  // GatherBlockQuantized
    kLinear,      // DequantizeLinear
    kInteger,     // an operand of an integer matmul: one scale per column, or a single one
  };
  Kind kind = Kind::kNone;
  int bits = 8;
  int64_t block = 0;  // codes that share a scale; 0: no blocks
  int axis = 1;       // kLinear: of the scales

  explicit operator bool() const { return kind != Kind::kNone; }
  bool operator==(const Quantization&) const = default;
};
// For the codes that this node reads.
Quantization quantization_of(const onnx::Node& node);

// A matrix [k, n] in the graph.
struct WeightPart {
  int value = -1;        // into Plan::tensors; codes if quantized
  bool n_major = false;  // [n][k]; otherwise [k][n]
  int64_t slice = -1;    // which matrix of a stack
  int64_t k = 0, n = 0;
  Quantization quantization;
  int scales = -1, zero_points = -1;  // into Plan::tensors; -1: none

  bool operator==(const WeightPart&) const = default;
};

struct PlanWeight {
  int64_t k = 0, n = 0;
  std::vector<WeightPart> parts;                   // side by side along n
  Activations activations = Activations::kFloats;  // required by the graph; the weights format may require more
  float row_scale = 0.0f;                          // kBytes: of all rows; 0: each row has its own
  int32_t row_zero_point = 0;                      // 0..255, with row_scale
  bool operator==(const PlanWeight&) const = default;
};

// Writes a tensor in memory in the form of a file tensor.
onnx::TensorData stored_in_memory(Tensor tensor);

}  // namespace kvik::native
