#pragma once

#include <unordered_map>
#include <vector>

#include "backend/native/probe/probe.h"

namespace kvik::native {

// What index values of a selection mean. NonZero of a mask over rows gives, for each element that is set, its place along every axis of the
// mask; a place along the axis of rows fetches and puts back rows, and must not be mixed up with one along another axis.
class Selections {
 public:
  struct Places {
    int32_t selection = -1;
    // For each place that the value holds, in order, the axes of the mask along which it counts; several where a place counts through
    // all of them, the last one fastest.
    std::vector<std::vector<int>> axes;
  };

  // A selection out of a mask with these axes, whose places are `value`.
  int32_t add(onnx::ValueId value, Axes mask);

  // Follows places through a node that only moves them, or makes one of two: row * width + column. Everything else loses them.
  // Refuses a factor that cannot be evaluated.
  Expected<> follow(const Labels& labels, ProbeBank& probes, Constants& constants, const onnx::Node& node);

  const Places* places_of(onnx::ValueId value) const;  // null: no places
  // The axis along which `places` is the i-th place.
  Axis axis_of(const Places& places, size_t i) const;

 private:
  // A place times a number that may differ between sizes.
  struct Scaled {
    Places places;
    std::vector<int64_t> by;  // at each of the sizes that axes are told apart by
  };
  Expected<> follow_product(const Labels& labels, ProbeBank& probes, const onnx::Node& node);
  void follow_sum(ProbeBank& probes, const onnx::Node& node);

  std::vector<Axes> masks_;  // by selection
  std::unordered_map<onnx::ValueId, Places> places_;
  std::unordered_map<onnx::ValueId, Scaled> scaled_;
};

}  // namespace kvik::native
