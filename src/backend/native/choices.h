#pragma once

#include <unordered_map>
#include <vector>

#include "backend/native/probe.h"

namespace kvik::native {

// What index values of a selection mean. NonZero of a mask over rows gives, for each element that is set, its place along every axis of the
// mask; a place along the axis of rows fetches and puts back rows, and must not be mixed up with one along another axis.
class Choices {
 public:
  struct Places {
    int32_t selection = -1;
    std::vector<int> axes;  // of the mask, in the order in which the value holds the places
  };

  // A selection out of a mask with these axes, whose places are `value`.
  int32_t add(onnx::ValueId value, Axes mask);

  // Follows places through a node that only moves them. Everything else loses them.
  void follow(const Labels& labels, Constants& constants, const onnx::Node& node);

  const Places* places_of(onnx::ValueId value) const;  // null: no places
  // The axis of the mask along which `places` is the i-th place.
  const Axis& axis_of(const Places& places, size_t i) const;

 private:
  std::vector<Axes> masks_;  // by selection
  std::unordered_map<onnx::ValueId, Places> places_;
};

}  // namespace kvik::native
