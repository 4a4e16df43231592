#include <cstring>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/elementwise.h"

namespace kvik::onnx {
namespace {

struct Less {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct LessOrEqual {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  static bool of(T a, T b) {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <class T>
  static bool of(T a, T b) {
    return a >= b;
  }
};

template <class Op>
Tensors compare(const KernelCall& call) {
  const Tensor a = widened(call.input(0));
  const Tensor b = widened(second_operand(call));
  require_same_dtype(call.input(0), call.input(1));
  return {visit_numeric(a.dtype(), [&]<class T>(Type<T>) { return zip<T, bool>(a, b, Op::template of<T>); })};
}

Tensor equal_strings(const Tensor& a, const Tensor& b) {
  const Dims dims = broadcast(a.dims(), b.dims());
  Tensor result = new_tensor(DType::kBool, dims);
  const auto to = result.mutable_data<bool>();
  size_t i = 0;
  for (Walk<2> walk(dims, {broadcast_strides(a.dims(), dims), broadcast_strides(b.dims(), dims)}); walk.more(); walk.next()) {
    to[i++] = a.data<std::string>()[static_cast<size_t>(walk.offset(0))] == b.data<std::string>()[static_cast<size_t>(walk.offset(1))];
  }
  return result;
}

Tensors equality(const KernelCall& call) {
  require_same_dtype(call.input(0), call.input(1));
  const Tensor a = widened(call.input(0));
  const Tensor b = widened(second_operand(call));
  if (a.dtype() == DType::kString) return {equal_strings(a, b)};
  if (a.dtype() == DType::kBool) return {zip<bool, bool>(a, b, [](bool x, bool y) { return x == y; })};
  return {visit_numeric(a.dtype(), [&]<class T>(Type<T>) { return zip<T, bool>(a, b, [](T x, T y) { return x == y; }); })};
}

bool both(bool a, bool b) { return a && b; }
bool either(bool a, bool b) { return a || b; }
bool exactly_one(bool a, bool b) { return a != b; }

template <bool (*kOp)(bool, bool)>
Tensors logical(const KernelCall& call) {
  return {zip<bool, bool>(call.input(0), second_operand(call), kOp)};
}

struct BitAnd {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct ShiftLeft {
  template <class T>
  static T of(T a, T b) {
    const auto n = static_cast<uint64_t>(b);
    return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << n);
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, T b) {
    const auto n = static_cast<uint64_t>(b);
    return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(a >> n);
  }
};

template <class Op>
Tensors bitwise(const KernelCall& call) {
  const Tensor& a = call.input(0);
  require_same_dtype(a, call.input(1));
  return {visit_integer(a.dtype(), [&]<class T>(Type<T>) { return zip<T, T>(a, call.input(1), Op::template of<T>); })};
}

Tensors bit_shift(const KernelCall& call) {
  const std::string_view direction = call.node.string_or("direction", "");
  require(direction == "LEFT" || direction == "RIGHT", "direction '{}' is unknown; expected 'LEFT' or 'RIGHT'", direction);
  return direction == "LEFT" ? bitwise<ShiftLeft>(call) : bitwise<ShiftRight>(call);
}

// Elements of one size, of any type.
template <class Bits>
void choose(Walk<3>& walk, std::span<const bool> chosen, const Tensor& x, const Tensor& y, Tensor& result) {
  const std::byte* sources[] = {y.bytes().data(), x.bytes().data()};
  std::byte* to = result.mutable_bytes().data();
  for (; walk.more(); walk.next(), to += sizeof(Bits)) {
    const bool first = chosen[static_cast<size_t>(walk.offset(0))];
    std::memcpy(to, sources[first ? 1 : 0] + walk.offset(first ? 1 : 2) * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
  }
}

Tensors where(const KernelCall& call) {
  const Tensor& condition = call.input(0);
  const Tensor& x = call.input(1);
  const Tensor& y = call.input(2);
  require_same_dtype(x, y);
  const Dims dims = broadcast(condition.dims(), broadcast(x.dims(), y.dims()));
  Tensor result = new_tensor(x.dtype(), dims);
  const auto chosen = condition.data<bool>();
  Walk<3> walk(dims, {broadcast_strides(condition.dims(), dims), broadcast_strides(x.dims(), dims), broadcast_strides(y.dims(), dims)});
  if (x.dtype() == DType::kF32 || x.dtype() == DType::kI32) {
    choose<uint32_t>(walk, chosen, x, y, result);
    return {result};
  }
  if (x.dtype() == DType::kF64 || x.dtype() == DType::kI64) {
    choose<uint64_t>(walk, chosen, x, y, result);
    return {result};
  }
  ElementWriter writer(result);
  for (int64_t to = 0; walk.more(); walk.next(), ++to) {
    const bool first = chosen[static_cast<size_t>(walk.offset(0))];
    writer.copy(first ? x : y, walk.offset(first ? 1 : 2), to);
  }
  return {result};
}

}  // namespace

void add_logic(KernelTable& table) {
  table.add("And", logical<both>);
  table.add("BitShift", bit_shift);
  table.add("BitwiseAnd", bitwise<BitAnd>);
  table.add("BitwiseOr", bitwise<BitOr>);
  table.add("BitwiseXor", bitwise<BitXor>);
  table.add("Equal", equality);
  table.add("Greater", compare<Greater>);
  table.add("GreaterOrEqual", compare<GreaterOrEqual>);
  table.add("Less", compare<Less>);
  table.add("LessOrEqual", compare<LessOrEqual>);
  table.add("Or", logical<either>);
  table.add("Where", where);
  table.add("Xor", logical<exactly_one>);
}

}  // namespace kvik::onnx
