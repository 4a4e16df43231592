#pragma once

#include <unordered_map>
#include <vector>

#include "backend/native/probe/probe.h"

namespace kvik::native {

// The meaning of a selection's index values. NonZero of a mask over rows returns, for each element that is set, its index along every axis
// of the mask. An index along the row axis gathers and scatters rows and must not be confused with one along another axis.
class Selections {
 public:
  struct Places {
    int32_t selection = -1;
    // For each index in the value, in order, the axes of the mask that it refers to; several if it is a flat index over them, the last one
    // fastest.
    std::vector<std::vector<int>> axes;
  };

  // A selection from a mask with these axes, whose indices are `value`.
  int32_t add(onnx::ValueId value, Axes mask);

  // Follows indices through a node that only moves them, or combines two into row * width + column. Other nodes lose them. Refuses a factor
  // that cannot be evaluated.
  Expected<> follow(const Labels& labels, ProbeBank& probes, Constants& constants, const onnx::Node& node);

  const Places* places_of(onnx::ValueId value) const;  // null: no indices
  // The axis of the i-th index in `places`.
  Axis axis_of(const Places& places, size_t i) const;

 private:
  // An index times a number that may differ between sizes.
  struct Scaled {
    Places places;
    std::vector<int64_t> by;  // at each of the three probing sizes
  };
  Expected<> follow_product(const Labels& labels, ProbeBank& probes, const onnx::Node& node);
  void follow_sum(ProbeBank& probes, const onnx::Node& node);

  std::vector<Axes> masks_;  // by selection
  std::unordered_map<onnx::ValueId, Places> places_;
  std::unordered_map<onnx::ValueId, Scaled> scaled_;
};

}  // namespace kvik::native
