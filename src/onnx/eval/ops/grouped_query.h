#pragma once

#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/common.h"

// Shared by the operators with grouped query heads and rotary tables.
namespace kvik::onnx {

struct GroupedOperands {
  Heads q, k, v;
};

// Query, key and value from inputs 0 to 2 of three dimensions, or all three packed in input 0.
GroupedOperands grouped_operands(const Tensor& query, const Tensor& key, const Tensor& value, int64_t n_heads, int64_t n_kv_heads);

// RMS-normalizes every head and multiplies by `weight` [head size]; does nothing without a weight.
void normalize_heads(Heads& heads, const Tensor& weight, double epsilon, std::string_view name);

// One logit per head: `sink` if given, zeros if `smooth`, nothing otherwise.
std::vector<double> sinks_of(const Tensor& sink, bool smooth, int64_t n_heads);

double attention_scale(const Node& node, int64_t head_size);

}  // namespace kvik::onnx
