#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/window.h"

namespace kvik::onnx {
namespace {

struct GridOptions {
  std::string_view mode;     // nearest, linear, cubic
  std::string_view padding;  // zeros, border, reflection
  bool align_corners;
};

// Reflects x at both borders.
double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const double excess = x < low ? low - x : x - high;
  const double n = std::floor(excess / range);
  const double rest = excess - n * range;
  const bool near_side = std::fmod(n, 2.0) == 0;
  return (x < low) == near_side ? low + rest : high - rest;
}

struct Tap {
  int64_t index;
  double weight;
};

// The elements of one axis that are interpolated for a coordinate in [-1, 1].
std::vector<Tap> taps_of(double coordinate, int64_t n, const GridOptions& options) {
  const auto width = static_cast<double>(n);
  const double low = options.align_corners ? 0.0 : -0.5;
  const double high = options.align_corners ? width - 1 : width - 0.5;
  // In f32, like the coordinates.
  double x = static_cast<float>(options.align_corners ? (coordinate + 1) / 2 * (width - 1) : ((coordinate + 1) * width - 1) / 2);
  if (!(std::fabs(x) < 1e9)) return {};  // NaN, or outside any image
  if (options.mode == "nearest") x = std::nearbyint(x);
  if (x < low || x > high) {
    if (options.padding == "border") x = std::clamp(x, 0.0, width - 1);
    if (options.padding == "reflection") x = static_cast<float>(reflected(x, low, high));
  }
  const auto first = static_cast<int64_t>(std::floor(x));
  const double t = x - std::floor(x);
  std::vector<Tap> taps;
  if (options.mode == "nearest") {
    taps = {{static_cast<int64_t>(x), 1.0}};
  } else if (options.mode == "linear") {
    taps = {{first, 1 - t}, {first + 1, t}};
  } else {
    constexpr double kA = -0.75;
    const auto outer = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
    const auto inner = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
    taps = {{first - 1, outer(t + 1)}, {first, inner(t)}, {first + 1, inner(1 - t)}, {first + 2, outer(2 - t)}};
  }
  for (Tap& tap : taps) {
    if (options.padding == "border") tap.index = std::clamp<int64_t>(tap.index, 0, n - 1);
    if (options.padding == "reflection") tap.index = static_cast<int64_t>(reflected(static_cast<double>(tap.index), low, high));
  }
  std::erase_if(taps, [n](const Tap& tap) { return tap.index < 0 || tap.index >= n; });
  return taps;
}

// The product of the taps of all axes, as offsets in one plane.
std::vector<Tap> combined(const std::vector<std::vector<Tap>>& axes, const Dims& plane) {
  std::vector<Tap> result = {{0, 1.0}};
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<Tap> next;
    for (const Tap& so_far : result) {
      for (const Tap& tap : axes[axis]) next.push_back({so_far.index * plane[axis] + tap.index, so_far.weight * tap.weight});
    }
    result = std::move(next);
  }
  return result;
}

GridOptions grid_options(const Node& node) {
  std::string_view mode = node.string_or("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string_view padding = node.string_or("padding_mode", "zeros");
  require(mode == "linear" || mode == "cubic" || mode == "nearest", "mode '{}' is unknown", mode);
  require(padding == "zeros" || padding == "border" || padding == "reflection", "padding_mode '{}' is unknown", padding);
  return {mode, padding, node.int_or("align_corners", 0) != 0};
}

Tensors grid_sample(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& grid = call.input(1);
  const Dims plane = spatial(x);
  const GridOptions options = grid_options(call.node);
  require(!plane.empty() && plane.size() <= 8 && grid.rank() == x.rank() && grid.dim(0) == x.dim(0) &&
              grid.dim(-1) == static_cast<int64_t>(plane.size()),
          "a grid of shape {} does not fit an input of {}", to_string(grid.dims()), to_string(x.dims()));
  Dims dims = {x.dim(0), x.dim(1)};
  dims.insert(dims.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
  call.work.take(dims, {int64_t{1} << (2 * plane.size())});  // at most four taps per axis
  Tensor result = new_tensor(DType::kF64, dims);
  if (result.size() == 0 || x.size() == 0) return {cast(result, x.dtype())};
  const std::vector<double> values = as_doubles(x);
  const std::vector<double> points = as_doubles(grid);
  const auto to = result.mutable_data<double>();
  const int64_t n_points = product(dims, 2, static_cast<int>(dims.size()));
  const int64_t in_plane = element_count(plane);
  for (int64_t i = 0; i < x.dim(0) * n_points; ++i) {
    std::vector<std::vector<Tap>> axes;
    for (size_t axis = 0; axis < plane.size(); ++axis) {  // the grid has the last axis first
      axes.push_back(taps_of(points[static_cast<size_t>(i + 1) * plane.size() - 1 - axis], plane[axis], options));
    }
    const std::vector<Tap> taps = combined(axes, plane);
    for (int64_t c = 0; c < x.dim(1); ++c) {
      const int64_t image = i / n_points * x.dim(1) + c;
      double total = 0;
      for (const Tap& tap : taps) total += tap.weight * values[static_cast<size_t>(image * in_plane + tap.index)];
      to[static_cast<size_t>(image * n_points + i % n_points)] = total;
    }
  }
  return {cast(result, x.dtype())};
}

Tensors col2im(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require_rank(x, 3, "the input");
  const Dims image = as_ints(call.input(1));
  const Window window = window_of(call.node, image, as_ints(call.input(2)));
  const int64_t n_taps = window.n_taps();
  const int64_t n_positions = element_count(window.output);
  require(x.dim(1) % n_taps == 0 && x.dim(2) == n_positions, "columns of shape {} do not fit an image of {}", to_string(x.dims()),
          to_string(image));
  const int64_t channels = x.dim(1) / n_taps;
  Dims dims = {x.dim(0), channels};
  dims.insert(dims.end(), image.begin(), image.end());
  call.work.take(dims);
  Tensor result = new_tensor(DType::kF64, dims);
  if (x.size() == 0) return {cast(result, x.dtype())};
  const std::vector<double> values = as_doubles(x);
  const auto to = result.mutable_data<double>();
  const int64_t plane = element_count(image);
  std::vector<int64_t> taps;
  int64_t position = 0;
  for_each_index(window.output, [&](const Dims& at) {
    window.taps(at, taps);
    for (int64_t c = 0; c < x.dim(0) * channels; ++c) {
      for (int64_t k = 0; k < n_taps; ++k) {
        const int64_t tap = taps[static_cast<size_t>(k)];
        if (tap >= 0) to[static_cast<size_t>(c * plane + tap)] += values[static_cast<size_t>((c * n_taps + k) * n_positions + position)];
      }
    }
    ++position;
  });
  return {cast(result, x.dtype())};
}

}  // namespace

void add_sampling(KernelTable& table) {
  table.add("Col2Im", col2im);
  table.add("GridSample", grid_sample);
}

}  // namespace kvik::onnx
