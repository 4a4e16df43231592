#include <algorithm>
#include <limits>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/window.h"

namespace kvik::onnx {
namespace {

Window pool_window(const KernelCall& call) {
  const Dims kernel = call.node.ints_or("kernel_shape", {});
  require(!kernel.empty(), "kernel_shape is missing");
  return window_of(call.node, spatial(call.input(0)), kernel);
}

Dims pooled_dims(const Tensor& x, const Dims& output) {
  Dims dims = {x.dim(0), x.dim(1)};
  dims.insert(dims.end(), output.begin(), output.end());
  return dims;
}

// Taps inside the input or its declared padding; ceil_mode can add positions outside both.
int64_t taps_in_padded_input(const Window& window, const Dims& at) {
  int64_t n = 1;
  for (size_t i = 0; i < window.rank(); ++i) {
    int64_t inside = 0;
    for (int64_t k = 0; k < window.kernel[i]; ++k) {
      const int64_t x = at[i] * window.strides[i] + k * window.dilations[i] - window.pads_begin[i];
      inside += x < window.input[i] + window.pads_end[i] ? 1 : 0;
    }
    n *= inside;
  }
  return n;
}

// Calls f(plane, position, taps, at) for each channel of each image and each window position.
template <class F>
void slide(const Tensor& x, const Window& window, F f) {
  if (x.size() == 0) return;
  std::vector<int64_t> taps;
  int64_t position = 0;
  for_each_index(window.output, [&](const Dims& at) {
    window.taps(at, taps);
    for (int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) f(plane, position, taps, at);
    ++position;
  });
}

Tensors average_pool(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Window window = pool_window(call);
  const bool count_padding = call.node.int_or("count_include_pad", 0) != 0;
  const Dims dims = pooled_dims(x, window.output);
  call.work.take(dims, {window.n_taps()});
  Tensor result = new_tensor(x.dtype(), dims);
  const int64_t in_plane = element_count(window.input);
  const int64_t out_plane = element_count(window.output);
  visit_float(x.dtype(), [&]<class T>(Type<T>) {
    const T* const from = x.data<T>().data();
    const auto to = result.mutable_data<T>();
    slide(x, window, [&](int64_t plane, int64_t position, const std::vector<int64_t>& taps, const Dims& at) {
      double total = 0;
      int64_t n = 0;
      for (const int64_t tap : taps) {
        if (tap < 0) continue;
        total += static_cast<double>(from[plane * in_plane + tap]);
        ++n;
      }
      if (count_padding) n = taps_in_padded_input(window, at);
      to[static_cast<size_t>(plane * out_plane + position)] = static_cast<T>(total / static_cast<double>(n));
    });
  });
  return {result};
}

// The index of an element in the whole input; with storage_order 1, spatial axes are column-major.
int64_t element_index(const Window& window, int64_t plane, int64_t tap, bool column_major) {
  if (!column_major) return plane * element_count(window.input) + tap;
  int64_t rest = tap;
  int64_t index = 0;
  for (size_t i = window.rank(); i-- > 0;) {
    index += rest % window.input[i] * product(window.input, 0, static_cast<int>(i));
    rest /= window.input[i];
  }
  return plane * element_count(window.input) + index;
}

Tensors max_pool(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Window window = pool_window(call);
  const bool column_major = call.node.int_or("storage_order", 0) != 0;
  const Dims dims = pooled_dims(x, window.output);
  call.work.take(dims, {window.n_taps()});
  Tensor result = new_tensor(x.dtype(), dims);
  Tensor indices = new_tensor(DType::kI64, result.dims());
  const auto places = indices.mutable_data<int64_t>();
  const int64_t in_plane = element_count(window.input);
  const int64_t out_plane = element_count(window.output);
  visit_numeric(x.dtype(), [&]<class T>(Type<T>) {
    const T* const from = x.data<T>().data();
    const auto to = result.mutable_data<T>();
    constexpr T kLeast = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    slide(x, window, [&](int64_t plane, int64_t position, const std::vector<int64_t>& taps, const Dims&) {
      T best = kLeast;
      int64_t best_tap = -1;
      for (const int64_t tap : taps) {
        if (tap < 0) continue;
        const T value = from[plane * in_plane + tap];
        if (best_tap >= 0 && !(value > best)) continue;
        best = value;
        best_tap = tap;
      }
      const auto target = static_cast<size_t>(plane * out_plane + position);
      to[target] = best;
      places[target] = best_tap < 0 ? -1 : element_index(window, plane, best_tap, column_major);
    });
  });
  return {result, indices};
}

// Pools all positions of each channel.
Tensors global_pool(const KernelCall& call, const std::function<double(std::span<const double>)>& f) {
  const Tensor& x = call.input(0);
  const Dims axes = spatial(x);
  Tensor result = new_tensor(x.dtype(), pooled_dims(x, Dims(axes.size(), 1)));
  const auto n = static_cast<size_t>(element_count(axes));
  require(n > 0, "an image of shape {} has no positions", to_string(axes));
  visit_float(x.dtype(), [&]<class T>(Type<T>) {
    const auto from = x.data<T>();
    const auto to = result.mutable_data<T>();
    std::vector<double> plane(n);
    for (size_t i = 0; i < to.size(); ++i) {
      for (size_t k = 0; k < n; ++k) plane[k] = static_cast<double>(from[i * n + k]);
      to[i] = static_cast<T>(f(plane));
    }
  });
  return {result};
}

Tensors global_average_pool(const KernelCall& call) {
  return global_pool(call, [](std::span<const double> plane) {
    double total = 0;
    for (const double x : plane) total += x;
    return total / static_cast<double>(plane.size());
  });
}

Tensors global_max_pool(const KernelCall& call) {
  return global_pool(call, [](std::span<const double> plane) { return *std::max_element(plane.begin(), plane.end()); });
}

}  // namespace

void add_pool(KernelTable& table) {
  table.add("AveragePool", in_f32<average_pool>);
  table.add("GlobalAveragePool", in_f32<global_average_pool>);
  table.add("GlobalMaxPool", in_f32<global_max_pool>);
  table.add("MaxPool", in_f32<max_pool>);
}

}  // namespace kvik::onnx
