#include "backend/native/label/node_labeler.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

namespace kvik::native {
namespace {

constexpr int64_t kLargestRow = int64_t{1} << 31;  // elements

Expected<std::vector<int64_t>> integers(const Tensor& tensor) {
  std::vector<int64_t> result;
  const auto copy = [&](auto elements) { result.assign(elements.begin(), elements.end()); };
  switch (tensor.dtype()) {
    case DType::kI64: copy(tensor.data<int64_t>()); break;
    case DType::kI32: copy(tensor.data<int32_t>()); break;
    default: return refuse(fmt::format("integers were expected, {} found", dtype_name(tensor.dtype())));
  }
  return result;
}

bool all_equal(const Dims& dims, int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [&](int64_t n) { return n == value; });
}

}  // namespace

NodeLabeler::NodeLabeler(GraphLabeler& labeler, onnx::NodeId id)
    : labeler_(labeler),
      id_(id),
      node_(labeler.flat().graph.nodes[static_cast<size_t>(id)]),
      fitted_(node_.inputs.size()),
      replaced_(node_.inputs.size()) {
  for (size_t i = 0; i < n_inputs(); ++i) {
    if (!is_row(i)) continue;
    score_ = score_ || label(i).is_score;
    last_ = last_ || label(i).is_last;
    all_last_ = all_last_ && label(i).is_last;
    if (poison_ < 0) poison_ = label(i).poison;
  }
}

bool NodeLabeler::one_token() const { return labeler_.labels().one_token; }

const Label& NodeLabeler::label(size_t i) const {
  static const Label omitted;
  return has(i) ? labeler_.labels()[node_.inputs[i]] : omitted;
}

Expected<Axes> NodeLabeler::axes(size_t i) const {
  if (!is_row(i)) return refuse(fmt::format("input {} is not computed from rows", i));
  return label(i).axes;
}

Expected<std::vector<Tensor>> NodeLabeler::at_sizes(size_t i) const {
  if (!has(i)) return refuse(fmt::format("input {} is omitted", i));
  return labeler_.at_sizes(node_.inputs[i]);
}

Expected<DType> NodeLabeler::dtype(size_t i) const {
  const Label& operand = label(i);
  if (operand.dtype != DType::kUndefined) return operand.dtype;
  KVIK_TRY(const std::vector<Tensor> tensors, at_sizes(i));
  const DType dtype = tensors.front().dtype();
  return is_computed_as_f32(dtype) ? DType::kF32 : dtype;
}

bool NodeLabeler::any_score() const {
  for (size_t i = 0; i < n_inputs(); ++i) {
    if (is_row(i) && label(i).is_score) return true;
  }
  return false;
}

bool NodeLabeler::any_empty() const {
  for (size_t i = 0; i < n_inputs(); ++i) {
    if (is_empty(i)) return true;
  }
  return false;
}

bool NodeLabeler::has_rows() const {
  for (size_t i = 0; i < n_inputs(); ++i) {
    if (!is_row(i)) continue;
    const Axes& operand = label(i).axes;
    if (label(i).is_score || std::any_of(operand.begin(), operand.end(), [](const Axis& axis) { return has_symbol(axis); })) return true;
  }
  return false;
}

Expected<> NodeLabeler::set_empty_outputs() {
  empty_ = true;
  for (size_t i = 0; i < node_.outputs.size(); ++i) KVIK_CHECK(set_output(i, Axes(), dtype(0)));
  return {};
}

Expected<size_t> NodeLabeler::axis_at(int64_t axis, size_t rank) const {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) return refuse(fmt::format("axis {} of {} axes", axis, rank));
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

Expected<Axes> NodeLabeler::fitted(size_t i, const Axes& like) {
  if (is_row(i)) return axes(i);
  if (!has(i)) return refuse(fmt::format("input {} is omitted", i));
  std::vector<Dims> dims(sizes().size(), label(i).dims);  // for each of sizes()
  const bool varies = label(i).kind == Label::Kind::kAuxiliary;
  if (varies) {
    KVIK_TRY(const std::vector<Tensor> tensors, at_sizes(i));
    for (size_t s = 0; s < dims.size(); ++s) dims[s] = tensors[s].dims();
  }
  const size_t rank = dims.front().size();
  for (const Dims& one : dims) {
    if (one.size() != rank) return refuse(fmt::format("the number of axes of input {} varies with the sizes", i));
  }
  Axes result;
  for (size_t a = 0; a < rank; ++a) {
    Dims found;
    for (const Dims& one : dims) found.push_back(one[a]);
    const size_t from_end = rank - a;
    KVIK_TRY(Axis axis, fitted_axis(i, a, found, from_end <= like.size() ? &like[like.size() - from_end] : nullptr));
    result.push_back(std::move(axis));
  }
  if (varies) fitted_[i] = result;
  return result;
}

// `found`: the axis at each of sizes().
Expected<Axis> NodeLabeler::fitted_axis(size_t i, size_t axis, const Dims& found, const Axis* like) const {
  if (all_equal(found, 1)) return Axis();
  if (std::find(found.begin(), found.end(), 0) != found.end()) return refuse(fmt::format("input {} is empty", i));
  if (all_equal(found, found.front()) && label(i).kind == Label::Kind::kConstant) return Axis{factor(found.front())};
  const auto sizes_of = [&](const Axis& one) {
    Dims result;
    for (const Sizes& set : sizes()) result.push_back(set.of(one));
    return result;
  };
  if (like != nullptr && sizes_of(*like) == found) return *like;
  if (all_equal(found, found.front())) return Axis{factor(found.front())};
  using enum Symbol;
  const Axis known[] = {{factor(kBatch)},
                        {factor(kNew)},
                        {factor(kTotal)},
                        {factor(kPast)},
                        {factor(kSource)},
                        {factor(kTotalAndSink)},
                        {factor(kBatch), factor(kNew)}};
  for (const Axis& symbol : known) {
    const Dims unit = sizes_of(symbol);
    if (all_equal(unit, 1) || unit.front() == 0 || found.front() % unit.front() != 0) continue;
    const int64_t times = found.front() / unit.front();
    bool fits = true;
    for (size_t s = 0; s < found.size(); ++s) fits = fits && found[s] == unit[s] * times;
    if (!fits) continue;
    Axis result = symbol;
    result.push_back(factor(times));
    return canonical(std::move(result));
  }
  return refuse(fmt::format("axis {} of input {} has the sizes {}, which are not a known length", axis, i, to_string(found)));
}

Expected<Axes> NodeLabeler::broadcast(std::span<const Axes> several) const {
  std::optional<Axes> result = native::broadcast(several);
  if (result) return std::move(*result);
  std::string words;
  for (const Axes& one : several) words += (words.empty() ? "" : " and ") + to_string(one);
  return refuse("axes do not line up: " + words);
}

Expected<std::vector<std::vector<int64_t>>> NodeLabeler::ints_by_size(size_t i) {
  if (is_row(i)) return refuse(fmt::format("input {} depends on the contents of rows", i));
  KVIK_TRY(const std::vector<Tensor> tensors, at_sizes(i));
  std::vector<std::vector<int64_t>> result;
  for (const Tensor& tensor : tensors) {
    KVIK_TRY(std::vector<int64_t> numbers, integers(tensor));
    result.push_back(std::move(numbers));
  }
  for (const std::vector<int64_t>& one : result) {
    if (one.size() != result.front().size()) return refuse(fmt::format("the length of input {} varies with the sizes", i));
  }
  return result;
}

Expected<std::vector<int64_t>> NodeLabeler::ints(size_t i) {
  KVIK_TRY(const std::vector<std::vector<int64_t>> by_size, ints_by_size(i));
  for (const std::vector<int64_t>& one : by_size) {
    if (one != by_size.front()) return refuse(fmt::format("input {} varies with the sizes", i));
  }
  if (label(i).kind == Label::Kind::kAuxiliary) {
    KVIK_TRY(const std::vector<Tensor> tensors, at_sizes(i));
    replace_operand(i, tensors.front());
  }
  return by_size.front();
}

Expected<std::optional<std::vector<int64_t>>> NodeLabeler::ints_of(std::string_view attribute, size_t operand) {
  if (node_.has(attribute)) return node_.ints_or(attribute, {});
  if (!has(operand)) return std::nullopt;
  KVIK_TRY(std::vector<int64_t> numbers, ints(operand));
  return numbers;
}

void NodeLabeler::replace_operand(size_t i, Tensor constant) {
  if (i >= replaced_.size()) replaced_.resize(i + 1);
  replaced_[i] = labeler_.emitter().constant(std::move(constant), node_.name);
}

Expected<> NodeLabeler::check(const Axes& axes) const {
  using enum Symbol;
  int64_t elements = 1;
  for (const Axis& axis : axes) {
    const int64_t size = std::max<int64_t>(1, row_size(axis));
    if (size > kLargestRow / elements) return refuse(fmt::format("a row of {} is too large", to_string(axes)));
    elements *= size;
  }
  if (score_) return {};
  const bool query = holds(axes, kNew), past = holds(axes, kPast);
  const bool keys = holds(axes, kTotal) || holds(axes, kSource) || holds(axes, kTotalAndSink);
  if (query && (keys || past)) return refuse("combines the axes of queries and keys outside a product: " + to_string(axes));
  if (last_ && (query || keys)) return refuse("spreads the last row of a call over others: " + to_string(axes));
  return {};
}

Expected<> NodeLabeler::set_output(size_t output, Expected<Axes> axes, const Expected<DType>& dtype) {
  if (!axes) return std::move(axes).refusal();
  if (!dtype) return dtype.refusal();
  if (output >= node_.outputs.size() || node_.outputs[output] == onnx::kNoValue) return {};
  for (Axis& axis : *axes) axis = canonical(std::move(axis));
  KVIK_CHECK(check(*axes));
  Label result{.kind = Label::Kind::kRow, .dtype = is_computed_as_f32(*dtype) ? DType::kF32 : *dtype, .axes = std::move(*axes)};
  for (size_t i = 0; i < n_inputs(); ++i) {
    if (!is_row(i)) continue;
    result.on_tokens = result.on_tokens || label(i).on_tokens;
    result.on_past = result.on_past || label(i).on_past;
    result.on_source = result.on_source || label(i).on_source;
  }
  result.is_score = score_;
  result.is_last = last_;
  result.is_empty = empty_;
  result.poison = poison_;
  labeler_.labels()[node_.outputs[output]] = std::move(result);
  return {};
}

Expected<> NodeLabeler::set_attended_output(size_t output, Expected<Axes> axes, const Expected<DType>& dtype) {
  score_ = false;
  return set_output(output, std::move(axes), dtype);
}

void NodeLabeler::poison(std::string reason) {
  if (poison_ >= 0) return;
  std::vector<std::string>& reasons = labeler_.labels().reasons;
  poison_ = static_cast<int>(reasons.size());
  reasons.push_back(node_.describe() + ": " + std::move(reason));
}

// The first output that exists: a node is only visited because one of its outputs is read.
const Label& NodeLabeler::output() const {
  return labeler_.labels()[*std::ranges::find_if(node_.outputs, [](onnx::ValueId value) { return value != onnx::kNoValue; })];
}

bool NodeLabeler::is_emitted() const { return poison_ < 0 && !score_ && !empty_ && !holds(output().axes, Symbol::kPast); }

bool NodeLabeler::for_source() const {
  const Label& made = output();
  return holds(made.axes, Symbol::kSource) || (made.on_source && !made.on_tokens && !made.on_past);
}

void NodeLabeler::emit(RowOp::Kind kind) {
  if (!is_emitted()) return;
  Emitter& emitter = labeler_.emitter();
  RowOp op{.kind = kind, .node = id_};
  for (size_t i = 0; i < std::max(replaced_.size(), n_inputs()); ++i) {
    const bool replaced = i < replaced_.size() && replaced_[i].has_value();
    if (kind != RowOp::Kind::kNode && i > 0) break;
    if (replaced) {
      op.inputs.push_back(*replaced_[i]);
    } else if (!has(i)) {
      op.inputs.push_back({});
    } else {
      op.inputs.push_back(emitter.operand(node_.inputs[i], fitted_[i]));
    }
  }
  for (const onnx::ValueId value : node_.outputs) op.outputs.push_back(value == onnx::kNoValue ? kNoRow : emitter.row(value));
  emitter.add(std::move(op), for_source());
}

Expected<> NodeLabeler::emit_with(Expected<Axes> axes, const Expected<DType>& dtype, RowOp::Kind kind) {
  KVIK_CHECK(set_output(0, std::move(axes), dtype));
  emit(kind);
  return {};
}

Expected<> NodeLabeler::emit_alias(size_t input, Expected<Axes> axes) {
  KVIK_CHECK(set_output(0, std::move(axes), dtype(input)));
  if (!is_emitted()) return {};
  Emitter& emitter = labeler_.emitter();
  emitter.add({.kind = RowOp::Kind::kReshape,
               .node = id_,
               .inputs = {emitter.operand(node_.inputs[input])},
               .outputs = {emitter.row(node_.outputs.at(0))}},
              for_source());
  return {};
}

void NodeLabeler::add_attention(int weights_input) {
  if (poison_ >= 0) return;
  const int attend = labeler_.emitter().add_attention(id_, node_.outputs.at(0));
  labeler_.result.attentions.push_back({id_, weights_input, attend});
}

}  // namespace kvik::native
