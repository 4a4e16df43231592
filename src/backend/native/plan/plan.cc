#include "backend/native/plan/plan.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace kvik::native {
namespace {

// Work that leaves something behind beside its values.
bool remembers(const Op& op) { return op.as<AppendOp>() != nullptr || op.as<WriteRegister>() != nullptr; }

template <class Fn>
void for_each_value_read(const Op& op, Fn fn) {
  for (const Input& input : op.in) {
    if (input.is_value()) fn(input.index);
  }
  if (op.selection != kNoIndex) fn(op.selection);
}

}  // namespace

std::string_view Op::kind() const {
  static constexpr std::array<std::string_view, std::variant_size_v<Args>> kNames = {
      "embed",   "matmul", "unary",  "binary", "gate",   "clip",   "where",         "norm",           "skip_norm",
      "softmax", "reduce", "rotary", "move",   "append", "attend", "read_register", "write_register", "reference"};
  return kNames[args.index()];
}

void Plan::index() {
  for (PlanValue& value : values) {
    value.producer = kNoIndex;
    value.consumers.clear();
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto op = static_cast<OpIndex>(i);
    for (const ValueIndex made : ops[i].out) {
      if (made != kNoIndex) values[static_cast<size_t>(made)].producer = op;
    }
    for_each_value_read(ops[i], [&](ValueIndex read) {
      std::vector<OpIndex>& consumers = values[static_cast<size_t>(read)].consumers;
      if (consumers.empty() || consumers.back() != op) consumers.push_back(op);
    });
  }
}

void Plan::drop_unused() {
  std::vector<bool> wanted(values.size());
  if (output.is_value()) wanted[static_cast<size_t>(output.index)] = true;
  std::vector<bool> keep(ops.size());
  for (size_t i = ops.size(); i-- > 0;) {
    const Op& op = ops[i];
    keep[i] = remembers(op) ||
              std::any_of(op.out.begin(), op.out.end(), [&](ValueIndex v) { return v != kNoIndex && wanted[static_cast<size_t>(v)]; });
    if (!keep[i]) continue;
    for_each_value_read(op, [&](ValueIndex read) { wanted[static_cast<size_t>(read)] = true; });
  }
  size_t n = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!keep[i]) continue;
    if (n != i) ops[n] = std::move(ops[i]);
    ++n;
  }
  ops.resize(n);
  index();
}

ValueIndex Plan::add_value(std::string name, int64_t size, DType dtype) {
  values.push_back({.name = std::move(name), .dtype = dtype, .size = size});
  return static_cast<ValueIndex>(values.size() - 1);
}

int Plan::add_constant(Tensor tensor) {
  constants.push_back(std::move(tensor));
  return static_cast<int>(constants.size() - 1);
}

int Plan::add_tensor(std::string name, Tensor tensor) {
  tensors.push_back({.name = std::move(name), .data = stored_in_memory(std::move(tensor)), .expression = nullptr});
  return static_cast<int>(tensors.size() - 1);
}

std::string Plan::describe(const Op& op) const {
  for (const ValueIndex made : op.out) {
    if (made != kNoIndex) return fmt::format("{} '{}'", op.kind(), value(made).name);
  }
  return std::string(op.kind());
}

const Op* Plan::producer(const Input& input) const {
  if (!is_whole(input) || value(input.index).producer == kNoIndex) return nullptr;
  return &ops[static_cast<size_t>(value(input.index).producer)];
}

Op* Plan::producer(const Input& input) { return const_cast<Op*>(std::as_const(*this).producer(input)); }

bool Plan::has_one_consumer(ValueIndex i) const { return value(i).consumers.size() == 1 && !(output.is_value() && output.index == i); }

std::span<const float> Plan::floats(const Input& input) const {
  if (!input.is_constant()) return {};
  const Tensor& tensor = constants[static_cast<size_t>(input.index)];
  if (tensor.dtype() != DType::kF32) return {};
  return tensor.data<float>().subspan(static_cast<size_t>(input.offset), static_cast<size_t>(input.size));
}

std::optional<float> Plan::scalar(const Input& input) const {
  const std::span<const float> values_of = floats(input);
  if (values_of.empty()) return {};
  for (const float x : values_of) {
    if (x != values_of.front()) return {};
  }
  return values_of.front();
}

void Plan::replace(ValueIndex from, const Input& to) {
  const auto shifted = [&](const Input& read) { return Input{to.kind, to.index, to.offset + read.offset, read.size}; };
  for (const OpIndex consumer : value(from).consumers) {
    Op& op = ops[static_cast<size_t>(consumer)];
    for (Input& input : op.in) {
      if (input.is_value() && input.index == from) input = shifted(input);
    }
    if (op.selection == from && to.is_value()) op.selection = to.index;
  }
  if (output.is_value() && output.index == from) output = shifted(output);
  if (value(from).selection != from || !to.is_value()) return;
  for (PlanValue& other : values) {
    if (other.selection == from) other.selection = to.index;
  }
}

}  // namespace kvik::native
