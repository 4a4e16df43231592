#include "analysis/constants.h"

#include "analysis/operators.h"
#include "kvik/error.h"

namespace kvik::analysis {
namespace {

constexpr int kDeepest = 16;       // nodes to follow backward; exporters need 5 or 6
constexpr int64_t kMostInts = 64;  // more than any shape or list of axes has

std::optional<std::vector<int64_t>> small_ints(const onnx::TensorData& data) {
  if (data.n_elements > kMostInts) return {};
  try {
    const Tensor tensor = load(data);
    std::vector<int64_t> result;
    if (tensor.dtype() == DType::kI64) {
      for (const int64_t x : tensor.data<int64_t>()) result.push_back(x);
    } else if (tensor.dtype() == DType::kI32) {
      for (const int32_t x : tensor.data<int32_t>()) result.push_back(x);
    } else {
      return {};
    }
    return result;
  } catch (const Error&) {
    return {};  // running the node reports the error
  }
}

std::optional<std::vector<int64_t>> attribute_ints(const onnx::Node& node) {
  if (const onnx::Attribute* one = node.find("value_int")) {
    if (const auto* x = std::get_if<int64_t>(&one->data)) return std::vector<int64_t>{*x};
  }
  if (const onnx::Attribute* list = node.find("value_ints")) {
    if (const auto* x = std::get_if<std::vector<int64_t>>(&list->data)) {
      if (static_cast<int64_t>(x->size()) <= kMostInts) return *x;
    }
  }
  return {};
}

bool keeps_integers(const FlowNode& node) {
  return node.is("Cast") || node.is("Identity") || node.is("Unsqueeze") || node.is("Squeeze") || node.is("Reshape") || node.is("Flatten");
}

std::optional<std::vector<int64_t>> ints_at(const Flow& flow, FlowValue value, int depth) {
  if (value == kNone || depth > kDeepest) return {};
  if (const onnx::TensorData* data = flow.constant(value)) return small_ints(*data);
  const FlowNode* node = flow.producer(value);
  if (node == nullptr || node->node == nullptr) return {};
  if (node->is("Constant")) return attribute_ints(*node->node);
  if (keeps_integers(*node)) return ints_at(flow, node->input(0), depth + 1);
  if (node->is("Neg")) {
    auto result = ints_at(flow, node->input(0), depth + 1);
    if (!result) return {};
    for (int64_t& x : *result) {
      if (x == INT64_MIN) return {};
      x = -x;
    }
    return result;
  }
  return {};
}

}  // namespace

std::optional<std::vector<int64_t>> constant_ints(const Flow& flow, FlowValue value) { return ints_at(flow, value, 0); }

std::optional<int64_t> constant_int(const Flow& flow, FlowValue value) {
  const auto list = constant_ints(flow, value);
  if (!list || list->size() != 1) return {};
  return list->front();
}

std::vector<std::optional<int64_t>> partial_ints(const Flow& flow, FlowValue value) {
  for (int depth = 0; depth < kDeepest && value != kNone; ++depth) {
    if (const auto known = constant_ints(flow, value)) return {known->begin(), known->end()};
    const FlowNode* node = flow.producer(value);
    if (node == nullptr) return {};
    if (node->is("Concat")) {
      std::vector<std::optional<int64_t>> result;
      for (const FlowValue part : node->inputs) {
        const auto known = constant_ints(flow, part);
        if (known) {
          result.insert(result.end(), known->begin(), known->end());
        } else {
          result.push_back({});  // a length, one element
        }
        if (result.size() > static_cast<size_t>(kMostInts)) return {};
      }
      return result;
    }
    // torch exports Expand targets as Where(Equal(shape, -1), ones, shape).
    if (node->is("Where")) {
      value = node->input(2);
      continue;
    }
    if (!node->is("Cast") && !node->is("Identity") && !node->is("Reshape")) return {};
    value = node->input(0);
  }
  return {};
}

std::optional<Dims> weight_dims(const Flow& flow, FlowValue value) {
  std::vector<std::vector<int64_t>> permutations;  // outermost first
  for (int depth = 0; depth < kDeepest && value != kNone; ++depth) {
    if (const onnx::TensorData* data = flow.constant(value)) {
      Dims dims = data->dims;
      for (auto p = permutations.rbegin(); p != permutations.rend(); ++p) {
        Dims moved(dims.rbegin(), dims.rend());
        if (!p->empty() && p->size() != dims.size()) return {};
        for (size_t i = 0; i < p->size(); ++i) {
          if ((*p)[i] < 0 || (*p)[i] >= static_cast<int64_t>(dims.size())) return {};
          moved[i] = dims[static_cast<size_t>((*p)[i])];
        }
        dims = std::move(moved);
      }
      return dims;
    }
    const FlowNode* node = flow.producer(value);
    if (node == nullptr || node->node == nullptr) return {};
    if (node->is("Transpose")) {
      permutations.push_back(node->node->ints_or("perm", {}));
    } else if (!node->is("Cast") && !node->is("Identity") && !node->is("DequantizeLinear") && !node->is("QuantizeLinear")) {
      return {};
    }
    value = node->input(0);
  }
  return {};
}

std::optional<Table> looked_up_table(const Flow& flow, const FlowNode& node) {
  if (node.node == nullptr) return {};
  if (node.is("Gather") && node.node->int_or("axis", 0) == 0) {
    const auto dims = weight_dims(flow, node.input(0));
    if (!dims || dims->size() != 2) return {};
    return Table{(*dims)[0], (*dims)[1]};
  }
  if (node.is("GatherBlockQuantized") && node.node->int_or("gather_axis", 0) == 0) {
    const auto dims = weight_dims(flow, node.input(0));
    if (!dims || dims->empty()) return {};
    return Table{(*dims)[0], 0};
  }
  return {};
}

bool is_product_with_weights(const Flow& flow, FlowValue value) {
  std::vector<FlowValue> open = {value};
  for (size_t n = 0; n < open.size() && n < static_cast<size_t>(kMostInts); ++n) {
    const FlowNode* node = open[n] == kNone ? nullptr : flow.producer(open[n]);
    if (node == nullptr) continue;
    if (is_matmul(*node) || node->is("MatMulNBits") || node->is("MatMulBnb4")) return true;
    const bool is_sum = node->is("Add") || node->is("Sub");
    const bool is_factor = node->is("Mul") || node->is("Div");
    if (is_sum || is_factor) {
      const bool constant[] = {weight_dims(flow, node->input(0)).has_value(), weight_dims(flow, node->input(1)).has_value()};
      if (is_sum && !constant[0] && !constant[1]) continue;  // a residual
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
    } else if (node->is(kMerge)) {
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
    } else if (moves_elements(*node) || node->is("Tanh") || node->is("Clip") || node->is("Softmax") || node->is("LogSoftmax")) {
      open.push_back(node->input(0));
    }
  }
  return false;
}

std::optional<int64_t> last_dim(const Flow& flow, FlowValue value) {
  for (int depth = 0; depth < kDeepest && value != kNone; ++depth) {
    const auto& type = flow.type(value);
    if (type && type->dims && !type->dims->empty() && type->dims->back().value >= 0) return type->dims->back().value;
    if (const onnx::TensorData* data = flow.constant(value)) {
      if (data->dims.empty()) return {};
      return data->dims.back();
    }
    const FlowNode* node = flow.producer(value);
    if (node == nullptr || node->node == nullptr) return {};
    if (node->is("MatMulNBits")) return node->node->int_or("N", -1);
    if (node->is("Gemm") || node->is("MatMul") || node->is("MatMulInteger") || node->is("FusedMatMul") ||
        node->is("DynamicQuantizeMatMul") || node->is("MatMulIntegerToFloat") || node->is("QLinearMatMul")) {
      const auto dims = weight_dims(flow, node->input(right_matrix(*node)));
      if (!dims || dims->size() < 2) return {};
      return node->is("Gemm") && node->node->int_or("transB", 0) != 0 ? dims->front() : dims->back();
    }
    if (node->is("Gather") && node->node->int_or("axis", 0) == 0) {
      const auto table = looked_up_table(flow, *node);
      if (!table) return {};
      return table->width;
    }
    if (node->is("Reshape")) {
      const auto target = partial_ints(flow, node->input(1));
      if (target.empty() || !target.back() || *target.back() <= 0) return {};
      return *target.back();
    }
    if (node->is("Add") || node->is("Mul") || node->is("Sub") || node->is("Div")) {
      // A bias or scale has this size, unless it is one broadcast number.
      std::optional<FlowValue> other;
      for (size_t i = 0; i < 2; ++i) {
        const auto dims = weight_dims(flow, node->input(i));
        if (dims && !dims->empty() && dims->back() > 1) return dims->back();
        if (!dims) other = node->input(i);
      }
      if (!other) return {};
      value = *other;
      continue;
    }
    const bool keeps = node->is("Cast") || node->is("Identity") || node->is("LayerNormalization") ||
                       node->is("SimplifiedLayerNormalization") || node->is("RMSNormalization") ||
                       node->is("SkipSimplifiedLayerNormalization") || node->is("SkipLayerNormalization") || node->is("Tanh") ||
                       node->is("RotaryEmbedding");
    if (!keeps) return {};
    value = node->input(0);
  }
  return {};
}

}  // namespace kvik::analysis
