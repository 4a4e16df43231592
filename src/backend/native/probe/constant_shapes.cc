#include "backend/native/probe/constant_shapes.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kvik::native {
namespace {

using onnx::kNoValue;
using onnx::Node;

constexpr int64_t kSmall = int64_t{1} << 14;  // elements: evaluating these costs nothing

class Making {
 public:
  Making(const Labels& labels, Constants& constants, const Node& node) : labels_(labels), constants_(constants), node_(node) {}

  bool is_small() const {
    int64_t total = 0;
    for (const onnx::ValueId id : node_.inputs) {
      if (id != kNoValue) total += checked_elements(labels_[id].dims).value_or(kSmall);
      if (total > kSmall) return false;
    }
    return true;
  }

  // Without evaluating anything large; nullopt if the operator is none of those.
  Expected<std::optional<ConstantShape>> inferred() const {
    if (!node_.domain.empty() || node_.inputs.empty() || node_.inputs[0] == kNoValue) return std::nullopt;
    using Infer = Expected<ConstantShape> (Making::*)() const;
    static const std::map<std::string_view, Infer> known = {
        {"Identity", &Making::same},       {"Transpose", &Making::transposed},     {"Cast", &Making::cast},
        {"Reshape", &Making::reshaped},    {"DequantizeLinear", &Making::widened}, {"Squeeze", &Making::squeezed},
        {"Unsqueeze", &Making::unsqueezed}};
    const auto found = known.find(node_.op);
    if (found == known.end()) return std::nullopt;
    KVIK_TRY(ConstantShape shape, (this->*found->second)());
    return shape;
  }

 private:
  const Label& input(size_t i) const { return labels_[node_.inputs[i]]; }

  Expected<std::vector<int64_t>> ints(std::string_view attribute, size_t i) const {
    if (node_.has(attribute) || i >= node_.inputs.size() || node_.inputs[i] == kNoValue) return node_.ints_or(attribute, {});
    KVIK_TRY(const Tensor tensor, constants_.get(node_.inputs[i]));
    const std::span<const int64_t> data = tensor.data<int64_t>();
    return std::vector<int64_t>(data.begin(), data.end());
  }

  Expected<ConstantShape> same() const { return ConstantShape{input(0).dtype, input(0).dims}; }

  Expected<ConstantShape> widened() const { return ConstantShape{DType::kF32, input(0).dims}; }

  Expected<ConstantShape> cast() const {
    const auto to = static_cast<DType>(node_.int_or("to", 1));
    return ConstantShape{is_computed_as_f32(to) ? DType::kF32 : to, input(0).dims};
  }

  Expected<ConstantShape> transposed() const {
    const Dims& dims = input(0).dims;
    const std::vector<int64_t> perm = node_.ints_or("perm", {});
    if (perm.empty()) return ConstantShape{input(0).dtype, Dims(dims.rbegin(), dims.rend())};
    Dims result;
    for (const int64_t axis : perm) {
      if (axis < 0 || axis >= static_cast<int64_t>(dims.size())) return refuse(node_, "perm names an axis that is not there");
      result.push_back(dims[static_cast<size_t>(axis)]);
    }
    return ConstantShape{input(0).dtype, result};
  }

  Expected<ConstantShape> reshaped() const {
    const Dims& dims = input(0).dims;
    KVIK_TRY(Dims target, ints("shape", 1));
    int64_t rest = element_count(dims);
    for (size_t i = 0; i < target.size(); ++i) {
      if (target[i] == 0 && i < dims.size() && node_.int_or("allowzero", 0) == 0) target[i] = dims[i];
      if (target[i] > 0) rest /= target[i];
    }
    for (int64_t& size : target) size = size < 0 ? rest : size;
    if (checked_elements(target) != element_count(dims)) return refuse(node_, "reshapes to another number of elements");
    return ConstantShape{input(0).dtype, target};
  }

  Expected<ConstantShape> squeezed() const {
    const Dims& dims = input(0).dims;
    KVIK_TRY(std::vector<int64_t> axes, ints("axes", 1));
    for (int64_t& axis : axes) axis += axis < 0 ? static_cast<int64_t>(dims.size()) : 0;
    Dims result;
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
      if (!named && !(axes.empty() && dims[i] == 1)) result.push_back(dims[i]);
    }
    return ConstantShape{input(0).dtype, result};
  }

  Expected<ConstantShape> unsqueezed() const {
    KVIK_TRY(std::vector<int64_t> axes, ints("axes", 1));
    Dims result = input(0).dims;
    const auto rank = static_cast<int64_t>(result.size() + axes.size());
    for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
    std::sort(axes.begin(), axes.end());
    for (const int64_t axis : axes) {
      if (axis < 0 || axis > static_cast<int64_t>(result.size())) return refuse(node_, "names an axis that is not there");
      result.insert(result.begin() + axis, 1);
    }
    return ConstantShape{input(0).dtype, result};
  }

  const Labels& labels_;
  Constants& constants_;
  const Node& node_;
};

}  // namespace

Expected<std::vector<ConstantShape>> constant_shapes(const Labels& labels, Constants& constants, const Node& node) {
  const Making making(labels, constants, node);
  if (!making.is_small()) {
    KVIK_TRY(std::optional<ConstantShape> shape, making.inferred());
    if (shape) return std::vector{std::move(*shape)};
  }
  std::vector<ConstantShape> shapes;
  for (const onnx::ValueId id : node.outputs) {
    if (id == kNoValue) {
      shapes.emplace_back();
      continue;
    }
    KVIK_TRY(const Tensor tensor, constants.get(id));
    shapes.push_back({tensor.dtype(), tensor.dims()});
  }
  return shapes;
}

}  // namespace kvik::native
