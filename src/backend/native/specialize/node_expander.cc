#include "backend/native/specialize/node_expander.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::native {
namespace {

using onnx::ValueId;

Expected<std::vector<double>> numbers(const Tensor& tensor) {
  std::vector<double> result;
  const auto copy = [&](auto elements) { result.assign(elements.begin(), elements.end()); };
  switch (tensor.dtype()) {
    case DType::kI64: copy(tensor.data<int64_t>()); break;
    case DType::kI32: copy(tensor.data<int32_t>()); break;
    case DType::kF32: copy(tensor.data<float>()); break;
    case DType::kBool: copy(tensor.data<bool>()); break;
    default: return refuse(fmt::format("a length or mask of type {} is not supported", dtype_name(tensor.dtype())));
  }
  return result;
}

}  // namespace

const Label& NodeExpander::label(int i) const { return state_.labels[input(i)]; }

Expected<size_t> NodeExpander::rank(int i) {
  if (label(i).kind == Label::Kind::kAuxiliary) {
    KVIK_TRY(const std::vector<Tensor> tensors, state_.at_sizes(input(i)));
    return tensors.front().dims().size();
  }
  return label(i).kind == Label::Kind::kRow ? label(i).axes.size() : label(i).dims.size();
}

Expected<int64_t> NodeExpander::last_size(int i) {
  KVIK_TRY(const size_t n_axes, has(i) ? rank(i) : Expected<size_t>(size_t{0}));
  if (n_axes == 0) return refuse(fmt::format("input {} is missing or a scalar", i));
  if (label(i).kind != Label::Kind::kAuxiliary) return is_row(i) ? row_size(label(i).axes.back()) : label(i).dims.back();
  KVIK_TRY(const std::vector<Tensor> tensors, state_.at_sizes(input(i)));
  for (const Tensor& tensor : tensors) {
    if (tensor.rank() == 0 || tensor.dim(-1) != tensors.front().dim(-1))
      return refuse(fmt::format("the width of input {} varies with the sizes", i));
  }
  return tensors.front().dim(-1);
}

ValueId NodeExpander::new_value(std::string_view op) {
  const std::string_view base = node_.name.empty() ? node_.op : node_.name;
  return flat().add_value(fmt::format("{}/{}", base, op));
}

ValueId NodeExpander::ints(std::vector<int64_t> values) {
  const Dims dims = {static_cast<int64_t>(values.size())};
  return flat().add_constant(fmt::format("{}/ints", node_.name), Tensor::of<int64_t>(dims, values));
}

ValueId NodeExpander::scalar(int64_t value) {
  return flat().add_constant(fmt::format("{}/int", node_.name), Tensor::scalar<int64_t>(value));
}

ValueId NodeExpander::add(NewNode made) { return add(std::move(made), 1).front(); }

std::vector<ValueId> NodeExpander::add(NewNode made, size_t n_outputs) {
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < n_outputs; ++i) outputs.push_back(new_value(made.op));
  into(outputs, std::move(made));
  return outputs;
}

void NodeExpander::into(std::vector<ValueId> outputs, NewNode made) {
  flat().add_node({.op = made.op,
                   .domain = made.domain,
                   .name = node_.name,
                   .opset = made.opset,
                   .inputs = std::move(made.inputs),
                   .outputs = std::move(outputs),
                   .captures = {},
                   .attributes = std::move(made.attributes)});
}

ValueId NodeExpander::positions() {
  FlatGraph& graph = flat();
  for (const FlatGraph::Input& known : graph.inputs) {
    if (known.port == nullptr) return known.value;
  }
  const ValueId value = graph.add_value("positions");
  graph.inputs.push_back({.value = value});
  return value;
}

Expected<> NodeExpander::require_equal(int i, const std::function<int64_t(const Sizes&)>& expected, std::string_view what) {
  if (!has(i)) return {};
  if (is_row(i)) return refuse(fmt::format("input {} ({}) depends on the contents of rows", i, what));
  KVIK_TRY(const std::vector<Tensor> tensors, state_.at_sizes(input(i)));
  const std::array<Sizes, 3> sizes = size_triple(state_.labels);
  for (size_t s = 0; s < tensors.size(); ++s) {
    const auto wanted = static_cast<double>(expected(sizes[s]));
    KVIK_TRY(const std::vector<double> all, numbers(tensors[s]));
    for (const double number : all) {
      if (number != wanted) return refuse(fmt::format("input {} ({}) is {}; the rows imply {}", i, what, number, wanted));
    }
  }
  return {};
}

Expected<> NodeExpander::require_open_mask(int i) {
  if (!has(i)) return {};
  if (is_row(i)) return refuse(fmt::format("input {} is a mask that depends on the contents of rows", i));
  KVIK_TRY(const std::vector<Tensor> tensors, state_.at_sizes(input(i)));
  for (const Tensor& tensor : tensors) {
    KVIK_TRY(const std::vector<double> all, numbers(tensor));
    if (tensor.rank() != 2 || std::find(all.begin(), all.end(), 0.0) != all.end())
      return refuse(fmt::format("input {} is a mask that hides keys, or of a form that is not known", i));
  }
  return {};
}

}  // namespace kvik::native
