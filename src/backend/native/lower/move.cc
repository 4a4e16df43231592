#include <numeric>

#include "backend/native/lower/lowering.h"
#include "onnx/eval/kernel.h"

// Movement: which element of the output is which element of the inputs is asked of the reference kernel, by feeding it numbers instead of
// elements. So every operator that only moves elements has the same rule.
namespace kvik::native {
namespace {

bool lower_alias(Lowering& lowering, const LowerItem& item) {
  if (!item.has(0)) return false;
  lowering.set(item, 0, lowering.input(item, 0));
  return true;
}

Tensor numbers(const Dims& dims, int64_t first) {
  Tensor tensor(DType::kI64, dims);
  const std::span<int64_t> elements = tensor.mutable_data<int64_t>();
  std::iota(elements.begin(), elements.end(), first);
  return tensor;
}

// Inputs [0, n_data) are moved, and the one at `also`; the others must be constants.
bool lower_movement(Lowering& lowering, const LowerItem& item, size_t n_data, size_t also = 0) {
  std::vector<Input> in;
  std::vector<Tensor> tensors;
  int64_t n_elements = 0;
  for (size_t i = 0; i < item.n_inputs(); ++i) {
    if (!item.has(i)) {
      tensors.emplace_back();
    } else if (i >= n_data && i != also) {
      tensors.push_back(lowering.constant(item, i));
      if (!tensors.back().defined()) return false;
    } else {
      in.push_back(lowering.input(item, i));
      tensors.push_back(numbers(lowering.dims(item, i), n_elements));
      n_elements += in.back().size;
    }
  }
  const std::vector<Tensor> maps = onnx::run_kernel(item.node, tensors);
  for (size_t i = 0; i < item.op.outputs.size(); ++i) {
    if (item.wants(i)) lowering.set(item, i, lowering.arrange(item, in, maps[i].data<int64_t>(), plan_dtype(lowering.out_dtype(item, i))));
  }
  return true;
}

bool lower_first_moved(Lowering& lowering, const LowerItem& item) { return lower_movement(lowering, item, 1); }
bool lower_all_moved(Lowering& lowering, const LowerItem& item) { return lower_movement(lowering, item, item.n_inputs()); }

// If two written parts overlap, the reference kernel determines which one remains.
bool lower_scatter(Lowering& lowering, const LowerItem& item) {
  return item.node.string_or("reduction", "none") == "none" && lower_movement(lowering, item, 1, 2);
}

// Features by constant indices; rows of a constant table by row values are embeddings (lower_product.cc).
bool lower_gather(Lowering& lowering, const LowerItem& item) {
  if (lower_embedding(lowering, item)) return true;
  if (item.is_constant(0)) return false;
  return lower_movement(lowering, item, 1);
}

int64_t index_in(const std::vector<Input>& in, int64_t number, int64_t* element) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (number < in[i].size) {
      *element = number;
      return static_cast<int64_t>(i);
    }
    number -= in[i].size;
  }
  return -1;
}

}  // namespace

Input Lowering::arrange(const LowerItem& item, const std::vector<Input>& in, std::span<const int64_t> map, DType dtype) {
  Move move;
  for (size_t i = 0; i < map.size(); ++i) {
    int64_t element = 0;
    const auto from = static_cast<int32_t>(index_in(in, map[i], &element));
    Move::Run* last = move.runs.empty() ? nullptr : &move.runs.back();
    if (last != nullptr && last->input == from && last->from + last->count == element) {
      ++last->count;
    } else {
      move.runs.push_back({from, element, static_cast<int64_t>(i), 1});
    }
  }
  const auto size = static_cast<int64_t>(map.size());
  if (move.runs.size() == 1) {
    const Input& x = in[static_cast<size_t>(move.runs.front().input)];
    return {x.kind, x.index, x.offset + move.runs.front().from, size};
  }
  return emit(item, std::move(move), in, size, dtype);
}

Input Lowering::broadcast(const LowerItem& item, const Input& x, const Dims& from, const Dims& to, DType dtype) {
  if (x.size == element_count(to)) return x;
  std::vector<int64_t> map(static_cast<size_t>(element_count(to)));
  const Dims strides = strides_of(from);
  for (size_t i = 0; i < map.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    for (size_t axis = to.size(); axis-- > 0;) {
      const int64_t coordinate = rest % to[axis];
      rest /= to[axis];
      const size_t missing = to.size() - from.size();
      if (axis >= missing && from[axis - missing] != 1) at += coordinate * strides[axis - missing];
    }
    map[i] = at;
  }
  return arrange(item, {x}, map, plan_dtype(dtype));
}

void add_movement_rules(LowerRules& rules) {
  for (const char* op : {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout"}) rules[{"", op}] = lower_alias;
  for (const char* op : {"Transpose", "Slice", "Split", "Tile", "GatherElements", "GatherND", "DepthToSpace"})
    rules[{"", op}] = lower_first_moved;
  rules[{"", "Concat"}] = lower_all_moved;
  rules[{"", "Gather"}] = lower_gather;
  rules[{"", "ScatterND"}] = lower_scatter;
}

}  // namespace kvik::native
