#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"

// Interpolation is separable: one axis after the other, in double.
namespace kvik::onnx {
namespace {

// The weights of neighboring elements for a point at `ratio` in (0, 1] after the left one of the middle pair.
using KernelWeights = std::function<std::vector<double>(double ratio, double scale)>;

struct AxisPlan {
  int64_t size = 0;  // of the result
  double scale = 1;
  double roi_start = 0;
  double roi_end = 1;
};

struct ResizeOptions {
  std::string_view coordinates;
  bool exclude_outside = false;
  double extrapolation = 0;
  KernelWeights weights;
  Work work;
};

std::vector<double> nearest_weights(double ratio, std::string_view mode) {
  const bool floor =
      (mode == "floor" && ratio < 1) || (mode == "round_prefer_floor" && ratio <= 0.5) || (mode == "round_prefer_ceil" && ratio < 0.5);
  require(mode == "floor" || mode == "ceil" || mode == "round_prefer_floor" || mode == "round_prefer_ceil", "nearest_mode '{}' is unknown",
          mode);
  return {floor ? 1.0 : 0.0, floor ? 0.0 : 1.0};
}

double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0.0;
}

double triangle(double x) { return std::max(0.0, 1 - std::fabs(x)); }

// Weights of a kernel of radius `reach`, stretched for antialiasing if the result is smaller.
std::vector<double> stretched_weights(double ratio, double scale, int reach, const std::function<double(double)>& kernel) {
  scale = std::min(scale, 1.0);
  require(scale > 1e-6, "a scale of {} is too small for antialiasing", scale);
  const auto first = static_cast<int64_t>(std::floor(-reach / scale)) + 1;
  std::vector<double> weights;
  double total = 0;
  for (int64_t i = first; i < first + 2 - 2 * first; ++i) {
    weights.push_back(kernel(scale * (static_cast<double>(i) - ratio)));
    total += weights.back();
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

KernelWeights weights_of(const KernelCall& call) {
  const std::string_view mode = call.node.string_or("mode", "nearest");
  const bool smooth = call.node.int_or("antialias", 0) != 0;
  if (mode == "nearest") {
    const std::string_view rounding = call.node.opset < 11 ? "floor" : call.node.string_or("nearest_mode", "round_prefer_floor");
    return [rounding](double ratio, double) { return nearest_weights(ratio, rounding); };
  }
  if (mode == "linear" || mode == "bilinear") {
    if (smooth) return [](double ratio, double scale) { return stretched_weights(ratio, scale, 1, triangle); };
    return [](double ratio, double) { return std::vector<double>{1 - ratio, ratio}; };
  }
  require(mode == "cubic", "mode '{}' is unknown; expected 'nearest', 'linear' or 'cubic'", mode);
  const double a = call.node.float_or("cubic_coeff_a", -0.75f);
  if (smooth) {
    return [a](double ratio, double scale) { return stretched_weights(ratio, scale, 2, [a](double x) { return cubic(x, a); }); };
  }
  return [a](double ratio, double) {
    return std::vector<double>{cubic(ratio + 1, a), cubic(ratio, a), cubic(1 - ratio, a), cubic(2 - ratio, a)};
  };
}

// The input coordinate of element y of the result.
double source_of(int64_t y, int64_t n, const AxisPlan& plan, std::string_view mode) {
  const auto at = static_cast<double>(y);
  const auto width = static_cast<double>(n);
  const double result_width = plan.scale * width;
  if (mode == "align_corners") return result_width == 1 ? 0 : at * (width - 1) / (result_width - 1);
  if (mode == "asymmetric") return at / plan.scale;
  if (mode == "tf_crop_and_resize") {
    const double span = (plan.roi_end - plan.roi_start) * (width - 1);
    return plan.roi_start * (width - 1) + (result_width == 1 ? span / 2 : at * span / (result_width - 1));
  }
  if (mode == "pytorch_half_pixel" && result_width == 1) return -0.5;
  const double half = (at + 0.5) / plan.scale - 0.5;
  if (mode == "half_pixel_symmetric") return width / 2 * (1 - static_cast<double>(plan.size) / result_width) + half;
  require(mode == "half_pixel" || mode == "pytorch_half_pixel", "coordinate_transformation_mode '{}' is unknown", mode);
  return half;
}

// One element of the result as a weighted sum along an axis of the input.
struct Point {
  std::vector<int64_t> from;
  std::vector<double> weights;
  bool outside = false;
};

Point point_of(int64_t y, int64_t n, const AxisPlan& plan, const ResizeOptions& options) {
  const double x = source_of(y, n, plan, options.coordinates);
  require(std::fabs(x) < 1e15, "an element has the input coordinate {}", x);
  if (options.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(n - 1))) return {{}, {}, true};
  const auto left = static_cast<int64_t>(std::ceil(x)) - 1;
  Point point = {{}, options.weights(x - static_cast<double>(left), plan.scale), false};
  double total = 0;
  for (size_t i = 0; i < point.weights.size(); ++i) {
    const int64_t at = left + static_cast<int64_t>(i) - static_cast<int64_t>(point.weights.size() / 2) + 1;
    if (options.exclude_outside && (at < 0 || at >= n)) point.weights[i] = 0;
    total += point.weights[i];
    point.from.push_back(std::clamp<int64_t>(at, 0, n - 1));
  }
  if (options.exclude_outside && total != 0) {
    for (double& weight : point.weights) weight /= total;
  }
  return point;
}

std::vector<double> resize_axis(const std::vector<double>& values, const AxisSplit& split, const AxisPlan& plan,
                                const ResizeOptions& options) {
  std::vector<double> result(static_cast<size_t>(split.outer * plan.size * split.inner));
  for (int64_t y = 0; y < plan.size; ++y) {
    const Point point = point_of(y, split.n, plan, options);
    options.work.take({split.outer, split.inner, static_cast<int64_t>(point.from.size())});
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t k = 0; k < split.inner; ++k) {
        double total = point.outside ? options.extrapolation : 0.0;
        for (size_t i = 0; i < point.from.size(); ++i) {
          const double weight = point.weights[i];
          if (weight != 0) total += weight * values[static_cast<size_t>((o * split.n + point.from[i]) * split.inner + k)];
        }
        result[static_cast<size_t>((o * plan.size + y) * split.inner + k)] = total;
      }
    }
  }
  return result;
}

int64_t size_of(double size) {
  require(size >= 0 && size < 0x1p40, "invalid size {}", size);
  return static_cast<int64_t>(size);
}

// One scale for all axes, to keep the aspect ratio.
void keep_aspect(std::vector<AxisPlan>& plans, const std::vector<int64_t>& axes, const Tensor& x, std::string_view policy) {
  if (policy == "stretch") return;
  require(policy == "not_larger" || policy == "not_smaller", "keep_aspect_ratio_policy '{}' is unknown", policy);
  double scale = plans[static_cast<size_t>(axes.at(0))].scale;
  for (const int64_t axis : axes) {
    const double other = plans[static_cast<size_t>(axis)].scale;
    scale = policy == "not_larger" ? std::min(scale, other) : std::max(scale, other);
  }
  for (const int64_t axis : axes) {
    AxisPlan& plan = plans[static_cast<size_t>(axis)];
    plan.scale = scale;
    plan.size = size_of(std::floor(scale * static_cast<double>(x.dims()[static_cast<size_t>(axis)]) + 0.5));
  }
}

std::vector<int64_t> axes_of(const KernelCall& call, int rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  axes = call.node.ints_or("axes", axes);
  normal_axes(axes, rank);
  for (int64_t& axis : axes) axis = normal_axis(axis, rank);
  return axes;
}

std::vector<double> scales_of(const KernelCall& call, size_t input) {
  if (call.has(input)) return as_doubles(call.input(input));
  const std::vector<float> scales = call.node.floats_or("scales", {});
  return {scales.begin(), scales.end()};
}

std::vector<AxisPlan> plans_of(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const bool old = call.node.op == "Upsample" || call.node.opset < 11;  // no roi, no sizes
  const std::vector<int64_t> axes = axes_of(call, x.rank());
  std::vector<AxisPlan> plans(x.dims().size());
  for (size_t i = 0; i < plans.size(); ++i) plans[i].size = x.dims()[i];
  const std::vector<double> scales = scales_of(call, old ? 1 : 2);
  const std::vector<int64_t> sizes = !old && call.has(3) ? as_ints(call.input(3)) : std::vector<int64_t>();
  const std::vector<double> roi = !old && call.has(1) ? as_doubles(call.input(1)) : std::vector<double>();
  require((scales.size() == axes.size()) != (sizes.size() == axes.size()) || axes.empty(), "{} scales and {} sizes were given for {} axes",
          scales.size(), sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisPlan& plan = plans[static_cast<size_t>(axes[i])];
    const auto n = static_cast<double>(x.dims()[static_cast<size_t>(axes[i])]);
    plan.scale = sizes.empty() ? scales[i] : static_cast<double>(sizes[i]) / n;
    plan.size = sizes.empty() ? size_of(std::floor(n * scales[i])) : size_of(static_cast<double>(sizes[i]));
    if (roi.size() == 2 * axes.size()) {
      plan.roi_start = roi[i];
      plan.roi_end = roi[axes.size() + i];
    }
  }
  if (!sizes.empty()) keep_aspect(plans, axes, x, call.node.string_or("keep_aspect_ratio_policy", "stretch"));
  return plans;
}

Tensors resize(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const bool old = call.node.op == "Upsample" || call.node.opset < 11;
  ResizeOptions options = {old ? "asymmetric" : call.node.string_or("coordinate_transformation_mode", "half_pixel"),
                           call.node.int_or("exclude_outside", 0) != 0, call.node.float_or("extrapolation_value", 0), weights_of(call),
                           call.work};
  const std::vector<AxisPlan> plans = plans_of(call);
  Dims dims = x.dims();
  Dims result_dims;
  for (const AxisPlan& plan : plans) result_dims.push_back(plan.size);
  call.work.take(result_dims);
  Tensor result = new_tensor(DType::kF64, result_dims);
  if (result.size() == 0) return {cast(result, x.dtype())};
  require(x.size() > 0, "an empty tensor of shape {} cannot be resized", to_string(x.dims()));
  std::vector<double> values = as_doubles(x);
  for (size_t axis = 0; axis < plans.size(); ++axis) {
    const AxisPlan& plan = plans[axis];
    if (plan.scale == 1 && plan.size == dims[axis] && plan.roi_start == 0 && plan.roi_end == 1) continue;
    require(plan.scale > 0, "axis {} has a scale of {}", axis, plan.scale);
    const AxisSplit split = split_at(dims, static_cast<int>(axis));
    dims[axis] = plan.size;
    call.work.take(dims);
    new_tensor(DType::kF64, dims);  // refuses an intermediate result that is too large
    values = resize_axis(values, split, plan, options);
  }
  return {cast(Tensor::of(dims, values), x.dtype())};
}

}  // namespace

void add_resize(KernelTable& table) {
  table.add("Resize", resize);
  table.add("Upsample", resize);
}

}  // namespace kvik::onnx
