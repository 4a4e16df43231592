#include "backend/native/label/selections.h"

#include <algorithm>

#include "onnx/eval/ops/common.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

// The only integer of a small constant; nothing for others.
Expected<std::optional<int64_t>> constant_int(const Labels& labels, Constants& constants, ValueId value) {
  if (labels[value].kind != Label::Kind::kConstant || checked_elements(labels[value].dims) != 1) return std::nullopt;
  KVIK_TRY(const Tensor tensor, constants.get(value));
  if (tensor.dtype() == DType::kI64) return tensor.data<int64_t>()[0];
  if (tensor.dtype() == DType::kI32) return tensor.data<int32_t>()[0];
  return std::nullopt;
}

}  // namespace

int32_t Selections::add(ValueId value, Axes mask) {
  Places places{.selection = static_cast<int32_t>(masks_.size())};
  for (size_t i = 0; i < mask.size(); ++i) places.axes.push_back({static_cast<int>(i)});
  places_[value] = places;
  masks_.push_back(std::move(mask));
  return places.selection;
}

const Selections::Places* Selections::places_of(ValueId value) const {
  const auto found = places_.find(value);
  return found == places_.end() ? nullptr : &found->second;
}

Axis Selections::axis_of(const Places& places, size_t i) const {
  Axis result;
  for (const int at : places.axes[i]) {
    const Axis& axis = masks_[static_cast<size_t>(places.selection)][static_cast<size_t>(at)];
    result.insert(result.end(), axis.begin(), axis.end());
  }
  return canonical(std::move(result));
}

Expected<> Selections::follow_product(const Labels& labels, ProbeBank& probes, const Node& node) {
  for (size_t i = 0; i < 2; ++i) {
    const Places* places = places_of(node.inputs[i]);
    const ValueId factor = node.inputs[1 - i];
    if (places == nullptr || places->axes.size() != 1 || labels[factor].kind == Label::Kind::kRow) continue;
    Scaled scaled{*places, {}};
    for (Probe* probe : probes.triple()) {
      KVIK_TRY(const Tensor number, probe->get(factor));
      if (number.size() != 1 || !is_integer(number.dtype())) return {};
      scaled.by.push_back(onnx::as_ints(number).front());
    }
    scaled_[node.outputs.at(0)] = std::move(scaled);
    return {};
  }
  return {};
}

void Selections::follow_sum(ProbeBank& probes, const Node& node) {
  for (size_t i = 0; i < 2; ++i) {
    const Places* inner = places_of(node.inputs[i]);
    const auto outer = scaled_.find(node.inputs[1 - i]);
    if (inner == nullptr || inner->axes.size() != 1 || outer == scaled_.end() || outer->second.places.selection != inner->selection)
      continue;
    const Axis axis = axis_of(*inner, 0);
    const std::span<Probe* const> sizes = probes.triple();
    for (size_t s = 0; s < sizes.size(); ++s) {
      if (sizes[s]->sizes().of(axis) != outer->second.by[s]) return;
    }
    Places both = outer->second.places;
    both.axes[0].insert(both.axes[0].end(), inner->axes[0].begin(), inner->axes[0].end());
    places_[node.outputs.at(0)] = std::move(both);
    return;
  }
}

Expected<> Selections::follow(const Labels& labels, ProbeBank& probes, Constants& constants, const Node& node) {
  if (places_.empty() || node.inputs.empty() || node.inputs[0] == onnx::kNoValue || !node.domain.empty()) return {};
  if (node.op == "Mul") return follow_product(labels, probes, node);
  if (node.op == "Add") {
    follow_sum(probes, node);
    return {};
  }
  const Places* found = places_of(node.inputs[0]);
  if (found == nullptr) return {};
  const Places places = *found;
  const auto set_output = [&](size_t output, std::vector<std::vector<int>> axes) {
    if (output < node.outputs.size() && node.outputs[output] != onnx::kNoValue)
      places_[node.outputs[output]] = {places.selection, std::move(axes)};
  };
  if (is_one_of(node.op, {"Identity", "Cast", "Transpose", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Expand"})) {
    set_output(0, places.axes);
    return {};
  }
  // The axis of the places is the one without the selection.
  const Axes& axes = labels[node.inputs[0]].axes;
  const int64_t named = node.int_or("axis", 0), rank = static_cast<int64_t>(axes.size());
  const int64_t at = named < 0 ? named + rank : named;
  if (at < 0 || at >= rank || has_symbol(axes[static_cast<size_t>(at)])) return {};
  if (node.op == "Split" && node.outputs.size() == places.axes.size()) {
    for (size_t i = 0; i < node.outputs.size(); ++i) set_output(i, {places.axes[i]});
  } else if (node.op == "Gather" && node.inputs.size() == 2) {
    KVIK_TRY(const std::optional<int64_t> index, constant_int(labels, constants, node.inputs[1]));
    const auto n = static_cast<int64_t>(places.axes.size());
    if (index && *index >= -n && *index < n) set_output(0, {places.axes[static_cast<size_t>(*index < 0 ? *index + n : *index)]});
  } else if (node.op == "Concat") {
    std::vector<std::vector<int>> all;
    for (const ValueId input : node.inputs) {
      const Places* more = places_of(input);
      if (more == nullptr || more->selection != places.selection) return {};
      all.insert(all.end(), more->axes.begin(), more->axes.end());
    }
    set_output(0, std::move(all));
  }
  return {};
}

}  // namespace kvik::native
