#include "backend/native/rows/speller.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::native {
namespace {

using onnx::ValueId;

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> result;
  const auto copy = [&](auto elements) { result.assign(elements.begin(), elements.end()); };
  switch (tensor.dtype()) {
    case DType::kI64: copy(tensor.data<int64_t>()); break;
    case DType::kI32: copy(tensor.data<int32_t>()); break;
    case DType::kF32: copy(tensor.data<float>()); break;
    case DType::kBool: copy(tensor.data<bool>()); break;
    default: throw Refusal(fmt::format("a length or mask of {} is not known", dtype_name(tensor.dtype())));
  }
  return result;
}

}  // namespace

const Label& Speller::label(size_t i) const { return walk_.labels()[input(i)]; }

size_t Speller::rank(size_t i) const { return label(i).kind == Label::Kind::kRow ? label(i).axes.size() : label(i).dims.size(); }

int64_t Speller::last_size(size_t i) const {
  if (!has(i) || rank(i) == 0) refuse(fmt::format("input {} is missing or a scalar", i));
  return label(i).kind == Label::Kind::kRow ? row_size(label(i).axes.back()) : label(i).dims.back();
}

ValueId Speller::new_value(std::string_view op) {
  const std::string_view base = node_.name.empty() ? node_.op : node_.name;
  return walk_.flat().add_value(fmt::format("{}/{}", base, op));
}

ValueId Speller::ints(std::vector<int64_t> values) {
  const Dims dims = {static_cast<int64_t>(values.size())};
  return walk_.flat().add_constant(fmt::format("{}/ints", node_.name), Tensor::of<int64_t>(dims, values));
}

ValueId Speller::scalar(int64_t value) {
  return walk_.flat().add_constant(fmt::format("{}/int", node_.name), Tensor::scalar<int64_t>(value));
}

ValueId Speller::add(Spelling spelling) { return add(std::move(spelling), 1).front(); }

std::vector<ValueId> Speller::add(Spelling spelling, size_t n_outputs) {
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < n_outputs; ++i) outputs.push_back(new_value(spelling.op));
  into(outputs, std::move(spelling));
  return outputs;
}

void Speller::into(std::vector<ValueId> outputs, Spelling spelling) {
  walk_.flat().add_node({.op = spelling.op,
                         .domain = spelling.domain,
                         .name = node_.name,
                         .opset = spelling.opset,
                         .inputs = std::move(spelling.inputs),
                         .outputs = std::move(outputs),
                         .captures = {},
                         .attributes = std::move(spelling.attributes)});
}

ValueId Speller::split_part(ValueId value, const std::vector<int64_t>& parts, size_t part) {
  const std::vector<ValueId> all =
      add({.op = "Split", .inputs = {value, ints(parts)}, .attributes = {{"axis", int64_t{-1}}}}, parts.size());
  return all[part];
}

ValueId Speller::positions() {
  FlatGraph& flat = walk_.flat();
  for (const FlatGraph::Input& input : flat.inputs) {
    if (input.port == nullptr) return input.value;
  }
  const ValueId value = flat.add_value("positions");
  flat.inputs.push_back({.value = value});
  return value;
}

void Speller::require_equal(size_t i, const std::function<int64_t(const Sizes&)>& expected, std::string_view what) {
  if (!has(i)) return;
  if (is_row(i)) refuse(fmt::format("input {} ({}) depends on the contents of rows", i, what));
  const std::vector<Tensor>& tensors = walk_.at_sizes(input(i));
  for (size_t s = 0; s < tensors.size(); ++s) {
    const auto wanted = static_cast<double>(expected(walk_.sizes()[s]));
    for (const double number : numbers(tensors[s])) {
      if (number != wanted) refuse(fmt::format("input {} ({}) is {} where {} follows from the rows", i, what, number, wanted));
    }
  }
}

void Speller::require_open_mask(size_t i) {
  if (!has(i)) return;
  if (is_row(i)) refuse(fmt::format("input {} is a mask that depends on the contents of rows", i));
  for (const Tensor& tensor : walk_.at_sizes(input(i))) {
    const std::vector<double> all = numbers(tensor);
    if (tensor.rank() != 2 || std::find(all.begin(), all.end(), 0.0) != all.end())
      refuse(fmt::format("input {} is a mask that hides keys, or of a form that is not known", i));
  }
}

}  // namespace kvik::native
