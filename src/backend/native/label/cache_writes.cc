#include "backend/native/label/cache_writes.h"

#include <algorithm>

#include "backend/native/label/node_labeler.h"
#include "backend/native/label/rules.h"
#include "onnx/eval/ops/common.h"

namespace kvik::native {
namespace {

using enum Symbol;
using onnx::ValueId;

const Axis kPastAxis = {factor(kPast)}, kNewAxis = {factor(kNew)}, kTotalAxis = {factor(kTotal)};

std::optional<size_t> axis_of(const Axes& axes, const Axis& wanted) {
  const auto found = std::find(axes.begin(), axes.end(), wanted);
  if (found == axes.end() || std::count(axes.begin(), axes.end(), wanted) != 1) return std::nullopt;
  return static_cast<size_t>(found - axes.begin());
}

// An auxiliary operand of numbers at each size, each of which has one number along `n` axes from the right and is the same for all others.
template <class Wanted>
Expected<bool> is_everywhere(NodeLabeler& op, size_t input, size_t n, const Wanted& wanted) {
  KVIK_TRY(const std::vector<Tensor> tensors, op.at_sizes(input));
  for (size_t s = 0; s < tensors.size(); ++s) {
    const Tensor& tensor = tensors[s];
    if (tensor.dtype() != DType::kF32 || tensor.rank() < static_cast<int>(n)) return false;
    const std::span<const float> data = tensor.data<float>();
    const int64_t inner = onnx::product(tensor.dims(), tensor.rank() - static_cast<int>(n), tensor.rank());
    for (int64_t i = 0; i < tensor.size(); ++i) {
      if (data[static_cast<size_t>(i)] != wanted(op.sizes()[s], tensor.dims(), i % std::max<int64_t>(1, inner))) return false;
    }
  }
  return true;
}

bool is_buffer(const FlatGraph::Input* input) {
  return input != nullptr && input->state != nullptr && input->state->growth == analysis::Growth::kFixed && !input->state->cross;
}

// The axis of positions of a buffer, or of one layer of a buffer of all layers.
std::optional<int64_t> position_axis(GraphLabeler& labeler, ValueId value) {
  if (const FlatGraph::Input* input = labeler.flat().input_of(value)) {
    return is_buffer(input) ? std::optional<int64_t>(input->state->position_axis) : std::nullopt;
  }
  const onnx::NodeId producer = labeler.flat().graph.value(value).producer;
  if (producer == onnx::kNoNode) return std::nullopt;
  const onnx::Node& node = labeler.flat().graph.nodes[static_cast<size_t>(producer)];
  const bool picks_layer = node.domain.empty() && node.op == "Gather" && node.inputs.size() == 2 &&
                           labeler.labels()[node.inputs[1]].kind == Label::Kind::kConstant && labeler.labels()[node.inputs[1]].dims.empty();
  if (!picks_layer || !is_buffer(labeler.flat().input_of(node.inputs[0]))) return std::nullopt;
  const auto rank = static_cast<int64_t>(labeler.labels()[node.inputs[0]].axes.size());
  const int64_t named = node.int_or("axis", 0), layers = named < 0 ? named + rank : named;
  const int64_t positions = labeler.flat().input_of(node.inputs[0])->state->position_axis;
  if (layers == positions) return std::nullopt;
  return layers < positions ? positions - 1 : positions;
}

// Whether an operand is this number at the sizes that identify axes, and at long ones.
Expected<bool> is_everywhere_int(NodeLabeler& op, size_t input, int64_t (*wanted)(const Sizes& sizes)) {
  CompileState& state = op.labeler().state();
  std::vector<Sizes> all(op.sizes().begin(), op.sizes().end());
  const std::vector<Sizes> far = long_sizes(state.labels, state.options.context);
  all.insert(all.end(), far.begin(), far.end());
  for (size_t s = 0; s < all.size(); ++s) {
    KVIK_TRY(const Evaluated<Tensor> found, state.probes.at(all[s]).try_get(op.node().inputs[input]));
    if (!found && s >= op.sizes().size()) break;  // the graph has no such length
    if (!found || found->size() != 1 || !is_integer(found->dtype()) || onnx::as_ints(*found).front() != wanted(all[s])) return false;
  }
  return true;
}

Axes with_axis(Axes axes, size_t at, const Axis& axis) {
  axes[at] = axis;
  return axes;
}

}  // namespace

Expected<bool> CacheWrites::label(NodeLabeler& op) {
  if (!op.node().domain.empty()) return false;
  if (op.labeler().flat().cut_buffer) {
    if (op.is("Slice")) return cut(op);
    if (!op.is("ScatterND")) return false;
    return cut_.contains(op.node().inputs[0]) ? write_to_cut(op) : write_back(op);
  }
  if (op.labeler().flat().buffer <= 0) return false;
  if (op.is("Mul")) return keep_past(op);
  if (op.is("MatMul")) return place_rows(op);
  if (op.is("Add")) return add_rows(op);
  if (op.is("Slice")) return drop_oldest(op);
  return op.is("Concat") ? append_rows(op) : false;
}

// The past times zeros at the positions that are written and ones at those before them.
Expected<bool> CacheWrites::keep_past(NodeLabeler& op) {
  for (const size_t past : {size_t{0}, size_t{1}}) {
    if (op.n_inputs() != 2 || !op.is_row(past) || op.is_row(1 - past)) continue;
    const Axes& axes = op.label(past).axes;
    const std::optional<size_t> at = axis_of(axes, kPastAxis);
    if (!at) continue;
    const size_t n = axes.size() - *at;  // axes from that of the positions on; those after it must have size 1
    const auto kept_at = [&](const Sizes& sizes, const Dims& dims, int64_t i) {
      const bool by_position = onnx::product(dims, static_cast<int>(dims.size() - n) + 1, static_cast<int>(dims.size())) == 1 &&
                               dims[dims.size() - n] == sizes.buffer;
      return !by_position ? -1.0f : i < sizes.past ? 1.0f : 0.0f;
    };
    KVIK_TRY(const bool keeps, is_everywhere(op, 1 - past, n, kept_at));
    if (!keeps) continue;
    KVIK_CHECK(op.set_output(0, op.axes(past), op.dtype(past)));
    kept_[op.node().outputs.at(0)] = op.node().inputs[past];
    return true;
  }
  return false;
}

// A one-hot matrix [buffer, new] by new rows [..., new, size].
Expected<bool> CacheWrites::place_rows(NodeLabeler& op) {
  if (op.is_row(0) || !op.is_row(1) || op.label(1).axes.size() < 2) return false;
  const Axes rows = op.label(1).axes;
  const size_t at = rows.size() - 2;
  if (rows[at] != kNewAxis) return false;
  const auto place_of = [](const Sizes& sizes, const Dims& dims, int64_t i) {
    if (dims.end()[-2] != sizes.buffer || dims.back() != sizes.fresh) return -1.0f;
    return i / sizes.fresh == sizes.past + i % sizes.fresh ? 1.0f : 0.0f;
  };
  KVIK_TRY(const bool places, is_everywhere(op, 0, 2, place_of));
  if (!places) return false;
  KVIK_CHECK(op.emit_alias(1, with_axis(rows, at, kTotalAxis)));
  placed_[op.node().outputs.at(0)] = op.node().inputs[1];
  return true;
}

Expected<bool> CacheWrites::add_rows(NodeLabeler& op) {
  for (const size_t past : {size_t{0}, size_t{1}}) {
    if (op.n_inputs() != 2) return false;
    const auto kept = kept_.find(op.node().inputs[past]), placed = placed_.find(op.node().inputs[1 - past]);
    if (kept == kept_.end() || placed == placed_.end()) continue;
    KVIK_CHECK(append(op, kept->second, 1 - past));
    op.labeler().result.appends.push_back({kept->second, placed->second});
    return true;
  }
  return false;
}

// All positions of the past but as many of the oldest as there are new ones.
Expected<bool> CacheWrites::drop_oldest(NodeLabeler& op) {
  if (op.n_inputs() < 4 || !op.is_row(0) || op.is_row(1) || op.is_row(2)) return false;
  const Axes past = op.label(0).axes;
  const std::optional<size_t> at = axis_of(past, kPastAxis);
  KVIK_TRY(const std::vector<int64_t> axes, op.ints(3));
  KVIK_TRY(const std::vector<int64_t> steps, op.has(4) ? op.ints(4) : std::vector<int64_t>{1});
  if (!at || axes.size() != 1 || steps != std::vector<int64_t>{1}) return false;
  KVIK_TRY(const size_t sliced, op.axis_at(axes[0], past.size()));
  if (sliced != *at) return false;
  KVIK_TRY(const std::vector<std::vector<int64_t>> starts, op.ints_by_size(1));
  KVIK_TRY(const std::vector<std::vector<int64_t>> ends, op.ints_by_size(2));
  for (size_t s = 0; s < starts.size(); ++s) {
    if (starts[s].size() != 1 || starts[s][0] != op.sizes()[s].fresh || ends[s].size() != 1 || ends[s][0] < op.sizes()[s].buffer)
      return false;
  }
  op.poison("drops the oldest positions of a cache");
  KVIK_CHECK(op.set_output(0, op.axes(0), op.dtype(0)));
  rolled_[op.node().outputs.at(0)] = op.node().inputs[0];
  return true;
}

Expected<bool> CacheWrites::append_rows(NodeLabeler& op) {
  if (op.n_inputs() != 2 || !op.is_row(1)) return false;
  const auto rolled = rolled_.find(op.node().inputs[0]);
  const Axes fresh = op.label(1).axes;
  const std::optional<size_t> at = axis_of(fresh, kNewAxis);
  if (rolled == rolled_.end() || !at) return false;
  KVIK_TRY(const size_t joined, op.axis_at(op.node().int_or("axis", 0), fresh.size()));
  if (joined != *at) return false;
  op.take_poison_of(1);
  KVIK_CHECK(append(op, rolled->second, 1));
  op.labeler().result.appends.push_back({rolled->second, op.node().inputs[1]});
  op.labeler().result.newest_last = true;
  return true;
}

// The first `total` positions: those before the new ones, and places that the new ones will be written to.
Expected<bool> CacheWrites::cut(NodeLabeler& op) {
  if (op.n_inputs() < 4 || !op.is_row(0) || op.is_row(1) || op.is_row(2)) return false;
  const std::optional<int64_t> positions = position_axis(op.labeler(), op.node().inputs[0]);
  if (!positions) return false;
  const Axes whole = op.label(0).axes;
  KVIK_TRY(const std::vector<int64_t> axes, op.ints(3));
  KVIK_TRY(const std::vector<int64_t> steps, op.has(4) ? op.ints(4) : std::vector<int64_t>{1});
  if (axes.size() != 1 || steps != std::vector<int64_t>{1}) return false;
  KVIK_TRY(const size_t at, op.axis_at(axes[0], whole.size()));
  KVIK_TRY(const bool from_start, is_everywhere_int(op, 1, [](const Sizes&) { return int64_t{0}; }));
  KVIK_TRY(const bool to_total, is_everywhere_int(op, 2, [](const Sizes& sizes) { return sizes.total(); }));
  if (static_cast<int64_t>(at) != *positions || !from_start || !to_total) return false;
  op.poison("reads positions of a cache that are not written yet");
  KVIK_CHECK(op.set_output(0, with_axis(whole, at, kTotalAxis), op.dtype(0)));
  cut_.insert(op.node().outputs.at(0));
  return true;
}

Expected<bool> CacheWrites::write_to_cut(NodeLabeler& op) {
  op.take_poison_of(2);
  KVIK_CHECK(write_into_past(op));
  return true;
}

// Into the buffer that a step returns. What is where in it is for verify_past to find out.
Expected<bool> CacheWrites::write_back(NodeLabeler& op) {
  const ValueId buffer = op.node().inputs[0];
  if (!is_buffer(op.labeler().flat().input_of(buffer)) && !written_back_.contains(buffer)) return false;
  op.poison("reads a cache that was written for the next step");
  KVIK_CHECK(op.set_output(0, op.axes(0), op.dtype(0)));
  written_back_.insert(op.node().outputs.at(0));
  return true;
}

Expected<> CacheWrites::append(NodeLabeler& op, ValueId past, size_t fresh) {
  KVIK_TRY(Axes whole, op.axes(fresh));
  for (Axis& axis : whole) {
    if (axis == kNewAxis) axis = kTotalAxis;
  }
  Axes before = whole;
  for (Axis& axis : before) {
    if (axis == kTotalAxis) axis = kPastAxis;
  }
  if (op.labeler().labels()[past].axes != before)
    return op.refuse("the buffer " + to_string(op.labeler().labels()[past].axes) + " does not line up with what is written, " +
                     to_string(whole));
  return op.emit_alias(fresh, std::move(whole));
}

}  // namespace kvik::native
