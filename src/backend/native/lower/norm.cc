#include <algorithm>
#include <numeric>

#include "backend/native/lower/lowering.h"
#include "onnx/eval/kernel.h"

// Operators on groups of a row: norms, softmax, reductions; and rotary embeddings.
namespace kvik::native {
namespace {

int64_t product(std::span<const int64_t> dims) { return element_count(dims); }

int64_t wrapped(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

struct Grouped {
  int64_t groups, size;
};
// The axes from `axis` on are one group.
Grouped from_axis(const Dims& dims, int64_t axis) {
  const auto at = static_cast<size_t>(std::clamp<int64_t>(wrapped(axis, dims.size()), 0, static_cast<int64_t>(dims.size())));
  return {product(std::span(dims).first(at)), product(std::span(dims).subspan(at))};
}

struct NormInputs {
  Input x, weight, bias;
};

std::optional<Input> emit_norm(Lowering& lowering, const LowerItem& item, NormOp op, const NormInputs& in, int64_t group) {
  const bool fits = group > 0 && (!in.weight || in.weight.size == group) && (!in.bias || in.bias.size == group);
  const bool constant = (!in.weight || in.weight.is_constant()) && (!in.bias || in.bias.is_constant());
  if (!fits || !constant) return {};
  op.groups = in.x.size / group;
  return lowering.emit(item, op, {in.x, in.weight, in.bias}, in.x.size);
}

bool lower_norm(Lowering& lowering, const LowerItem& item, bool centered) {
  if (item.wants(1) || item.wants(2) || lowering.dtype(item, 0) != DType::kF32) return false;
  const Grouped grouped = from_axis(lowering.dims(item, 0), item.node.int_or("axis", -1));
  const NormOp op{centered, item.node.float_or("epsilon", 1e-5f)};
  const NormInputs in{lowering.input(item, 0), lowering.input(item, 1), lowering.input(item, 2)};
  const std::optional<Input> out = emit_norm(lowering, item, op, in, grouped.size);
  if (out) lowering.set(item, 0, *out);
  return out.has_value();
}

bool lower_layer_norm(Lowering& lowering, const LowerItem& item) { return lower_norm(lowering, item, true); }
bool lower_rms_norm(Lowering& lowering, const LowerItem& item) { return lower_norm(lowering, item, false); }

// Norm of a sum: inputs are x, skip, gamma, (beta,) bias; output 3 is the sum.
bool lower_skip_norm(Lowering& lowering, const LowerItem& item, bool centered) {
  const size_t bias_input = centered ? 4 : 3;
  if (item.wants(1) || item.wants(2) || lowering.dtype(item, 0) != DType::kF32) return false;
  const Input x = lowering.input(item, 0), skip = lowering.input(item, 1);
  const Dims dims = lowering.dims(item, 0);
  if (skip.size != x.size || dims.empty()) return false;
  if (item.has(bias_input) && !item.is_constant(bias_input)) return false;
  Input sum = lowering.emit(item, BinaryOp{Binary::kAdd}, {x, skip}, x.size);
  if (item.has(bias_input)) {
    const Input bias = lowering.input(item, bias_input);
    if (bias.size < 1 || x.size % bias.size != 0) return false;
    sum = lowering.emit(item, BinaryOp{Binary::kAdd, Spread::kAll, Spread::kEvery, x.size / bias.size}, {sum, bias}, x.size);
  }
  const NormInputs in{sum, lowering.input(item, 2), centered ? lowering.input(item, 3) : Input{}};
  const std::optional<Input> out = emit_norm(lowering, item, {centered, item.node.float_or("epsilon", 1e-12f)}, in, dims.back());
  if (!out) return false;
  lowering.set(item, 0, *out);
  lowering.set(item, 3, sum);
  return true;
}

bool lower_skip_layer_norm(Lowering& lowering, const LowerItem& item) { return lower_skip_norm(lowering, item, true); }
bool lower_skip_rms_norm(Lowering& lowering, const LowerItem& item) { return lower_skip_norm(lowering, item, false); }

bool lower_softmax(Lowering& lowering, const LowerItem& item, bool log) {
  if (lowering.dtype(item, 0) != DType::kF32) return false;
  const Dims dims = lowering.dims(item, 0);
  const bool flattens = item.node.opset < 13;  // everything from the axis on is one group
  const int64_t axis = wrapped(item.node.int_or("axis", flattens ? 1 : -1), dims.size());
  if (axis < 0 || axis >= static_cast<int64_t>(dims.size())) return false;
  const Grouped grouped = from_axis(dims, axis);
  if (!flattens && grouped.size != dims[static_cast<size_t>(axis)]) return false;
  const Input x = lowering.input(item, 0);
  lowering.set(item, 0, lowering.emit(item, SoftmaxOp{grouped.groups, log}, {x}, x.size));
  return true;
}

bool lower_plain_softmax(Lowering& lowering, const LowerItem& item) { return lower_softmax(lowering, item, false); }
bool lower_log_softmax(Lowering& lowering, const LowerItem& item) { return lower_softmax(lowering, item, true); }

// Which axes are reduced; nullopt if it is not known before a row is.
std::optional<std::vector<int64_t>> reduced_axes(Lowering& lowering, const LowerItem& item, size_t rank) {
  std::vector<int64_t> axes = item.node.ints_or("axes", {});
  if (item.has(1)) {
    const Tensor given = lowering.constant(item, 1);
    if (!given.defined() || given.dtype() != DType::kI64) return {};
    axes.assign(given.data<int64_t>().begin(), given.data<int64_t>().end());
  }
  if (axes.empty() && item.node.int_or("noop_with_empty_axes", 0) != 0) return {};
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) {
    axis = wrapped(axis, rank);
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return {};
  }
  return axes;
}

// The first n parts of a row, one upon another.
std::optional<Input> fold_parts(Lowering& lowering, const LowerItem& item, Reduce op, const Input& x, int64_t n) {
  constexpr int64_t kMostParts = 256;
  if (n > kMostParts) return {};
  Binary step = Binary::kAdd;
  switch (op) {
    case Reduce::kSum:
    case Reduce::kMean: break;
    case Reduce::kMax: step = Binary::kMax; break;
    case Reduce::kMin: step = Binary::kMin; break;
    case Reduce::kProd: step = Binary::kMul; break;
    default: return {};
  }
  const int64_t size = x.size / n;
  const auto part = [&](int64_t i) { return Input{x.kind, x.index, x.offset + i * size, size}; };
  Input sum = part(0);
  for (int64_t i = 1; i < n; ++i) sum = lowering.emit(item, BinaryOp{step}, {sum, part(i)}, size);
  if (op != Reduce::kMean) return sum;
  const int factor = lowering.plan().add_constant(Tensor::of<float>({1}, {1.0f / static_cast<float>(n)}));
  return lowering.emit(item, BinaryOp{Binary::kMul, Spread::kAll, Spread::kOne}, {sum, {Input::Kind::kConstant, factor, 0, 1}}, size);
}

template <Reduce kOp>
bool lower_reduce(Lowering& lowering, const LowerItem& item) {
  if (lowering.dtype(item, 0) != DType::kF32) return false;
  const Dims dims = lowering.dims(item, 0);
  const auto axes = reduced_axes(lowering, item, dims.size());
  if (!axes) return false;
  // Axes of size 1 may be counted in or out.
  std::vector<bool> reduced(dims.size());
  for (const int64_t axis : *axes) reduced[static_cast<size_t>(axis)] = true;
  size_t first = dims.size(), last = 0;  // what is reduced is the end from `first` on, or the beginning up to `last`
  while (first > 0 && (reduced[first - 1] || dims[first - 1] == 1)) --first;
  while (last < dims.size() && (reduced[last] || dims[last] == 1)) ++last;
  const auto stays = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (reduced[i] && dims[i] != 1) return false;
    }
    return true;
  };
  const Input x = lowering.input(item, 0);
  if (x.size == 0) return false;
  if (stays(0, first)) {
    const int64_t groups = product(std::span(dims).first(first));
    lowering.set(item, 0, lowering.emit(item, ReduceOp{kOp, groups}, {x}, groups));
    return true;
  }
  const std::optional<Input> folded =
      stays(last, dims.size()) ? fold_parts(lowering, item, kOp, x, product(std::span(dims).first(last))) : std::nullopt;
  if (folded) lowering.set(item, 0, *folded);
  return folded.has_value();
}

// Rows of a constant table [positions, n] at the positions in another table.
Input table_at(Lowering& lowering, const LowerItem& item, size_t cache, size_t positions) {
  if (item.op.inputs[cache].kind == Operand::Kind::kTable) return lowering.input(item, cache);
  const Tensor rows = lowering.constant(item, cache);
  if (!rows.defined() || rows.rank() != 2 || rows.dtype() != DType::kF32 || !item.has(positions)) return {};
  if (item.op.inputs[positions].kind != Operand::Kind::kTable || lowering.dtype(item, positions) != DType::kI64) return {};
  const PlanTable at = lowering.plan().tables[static_cast<size_t>(item.op.inputs[positions].index)];
  if (at.size != 1) return {};
  Input& made = lowering.rows_at(item.op.inputs[cache].index, item.op.inputs[positions].index);
  if (made) return made;
  PlanTable table = at;
  table.dtype = DType::kF32;
  table.size = rows.dim(1);
  table.lookup = rows;
  table.limit = at.limit > 0 ? std::min(at.limit, rows.dim(0)) : rows.dim(0);
  lowering.plan().tables.push_back(std::move(table));
  made = {Input::Kind::kTable, static_cast<int32_t>(lowering.plan().tables.size() - 1), 0, rows.dim(1)};
  return made;
}

bool lower_rotary(Lowering& lowering, const LowerItem& item, size_t cos_input, size_t positions) {
  const Dims dims = lowering.dims(item, 0);
  if (lowering.dtype(item, 0) != DType::kF32 || item.node.float_or("scale", 1.0f) != 1.0f || dims.size() < 3) return false;
  const Input cos = table_at(lowering, item, cos_input, positions), sin = table_at(lowering, item, cos_input + 1, positions);
  if (!cos || !sin || cos.size != sin.size) return false;
  const Input x = lowering.input(item, 0);
  RotaryOp rotary;
  const int64_t heads = item.node.int_or("num_heads", 0);
  rotary.n_heads = dims.size() == 4 ? dims[1] : heads;
  if (rotary.n_heads <= 0) rotary.n_heads = x.size / (2 * cos.size);
  if (rotary.n_heads <= 0 || x.size % rotary.n_heads != 0) return false;
  rotary.head_dim = x.size / rotary.n_heads;
  const int64_t rotated = item.node.int_or("rotary_embedding_dim", 0);
  rotary.n_pairs = (rotated > 0 ? rotated : rotary.head_dim) / 2;
  rotary.interleaved = item.node.int_or("interleaved", 0) != 0;
  if (rotary.n_pairs > cos.size || 2 * rotary.n_pairs > rotary.head_dim) return false;
  lowering.set(item, 0, lowering.emit(item, rotary, {x, cos, sin}, x.size));
  return true;
}

bool lower_standard_rotary(Lowering& lowering, const LowerItem& item) { return lower_rotary(lowering, item, 1, 3); }
bool lower_microsoft_rotary(Lowering& lowering, const LowerItem& item) { return lower_rotary(lowering, item, 2, 1); }

}  // namespace

void add_norm_rules(LowerRules& rules) {
  rules[{"", "LayerNormalization"}] = lower_layer_norm;
  rules[{"", "RMSNormalization"}] = lower_rms_norm;
  rules[{"", "SimplifiedLayerNormalization"}] = lower_rms_norm;
  rules[{"com.microsoft", "SimplifiedLayerNormalization"}] = lower_rms_norm;
  rules[{"com.microsoft", "SkipLayerNormalization"}] = lower_skip_layer_norm;
  rules[{"com.microsoft", "SkipSimplifiedLayerNormalization"}] = lower_skip_rms_norm;
  rules[{"", "Softmax"}] = lower_plain_softmax;
  rules[{"", "LogSoftmax"}] = lower_log_softmax;
  rules[{"", "ReduceSum"}] = lower_reduce<Reduce::kSum>;
  rules[{"", "ReduceMean"}] = lower_reduce<Reduce::kMean>;
  rules[{"", "ReduceMax"}] = lower_reduce<Reduce::kMax>;
  rules[{"", "ReduceMin"}] = lower_reduce<Reduce::kMin>;
  rules[{"", "ReduceProd"}] = lower_reduce<Reduce::kProd>;
  rules[{"", "ReduceSumSquare"}] = lower_reduce<Reduce::kSumSquare>;
  rules[{"", "ReduceL1"}] = lower_reduce<Reduce::kSumAbs>;
  rules[{"", "ReduceL2"}] = lower_reduce<Reduce::kL2>;
  rules[{"", "RotaryEmbedding"}] = lower_standard_rotary;
  rules[{"com.microsoft", "RotaryEmbedding"}] = lower_microsoft_rotary;
}

}  // namespace kvik::native
