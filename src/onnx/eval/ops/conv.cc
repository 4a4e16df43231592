#include <algorithm>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/window.h"

namespace kvik::onnx {
namespace {

struct Channels {
  int64_t groups;
  int64_t in;   // per group
  int64_t out;  // per group
};

int64_t groups_of(const Node& node, const Tensor& x) {
  const int64_t groups = node.int_or("group", 1);
  require(groups > 0 && groups <= std::max<int64_t>(1, x.dim(1)) && x.dim(1) % groups == 0, "{} channels cannot be divided into {} groups",
          x.dim(1), groups);
  return groups;
}

Dims kernel_of(const Node& node, const Tensor& weights) {
  Dims kernel = spatial(weights);
  require(node.ints_or("kernel_shape", kernel) == kernel, "kernel_shape does not match weights of shape {}", to_string(weights.dims()));
  return kernel;
}

void require_bias(const Tensor& bias, int64_t n_channels) {
  require(!bias.defined() || (bias.rank() == 1 && bias.dim(0) == n_channels), "a bias of shape {} was given for {} channels",
          to_string(bias.dims()), n_channels);
}

// One group of one image: multiplies the patch under the window, over all channels, with each kernel.
template <class T>
void convolve(const Window& window, const Channels& channels, const T* x, const T* weights, std::span<const double> bias, T* to) {
  const int64_t plane = element_count(window.input);
  const int64_t out_plane = element_count(window.output);
  const int64_t n_taps = window.n_taps();
  std::vector<int64_t> taps;
  std::vector<double> patch(static_cast<size_t>(channels.in * n_taps));
  int64_t position = 0;
  for_each_index(window.output, [&](const Dims& at) {
    window.taps(at, taps);
    size_t i = 0;
    for (int64_t c = 0; c < channels.in; ++c) {
      for (const int64_t tap : taps) patch[i++] = tap < 0 ? 0.0 : static_cast<double>(x[c * plane + tap]);
    }
    for (int64_t m = 0; m < channels.out; ++m) {
      double total = 0;
      const T* const kernel = weights + m * channels.in * n_taps;
      for (size_t k = 0; k < patch.size(); ++k) total += patch[k] * static_cast<double>(kernel[k]);
      to[m * out_plane + position] = static_cast<T>(total + bias[static_cast<size_t>(m)]);
    }
    ++position;
  });
}

Tensors conv(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& weights = call.input(1);
  require_same_dtype(x, weights);
  const Window window = window_of(call.node, spatial(x), kernel_of(call.node, weights));
  const int64_t groups = groups_of(call.node, x);
  const Channels channels = {groups, weights.dim(1), weights.dim(0) / groups};
  require(weights.dim(0) % groups == 0 && x.dim(1) / groups == channels.in, "weights of shape {} in {} groups do not fit an input of {}",
          to_string(weights.dims()), groups, to_string(x.dims()));
  require_bias(call.optional(2), weights.dim(0));
  const std::vector<double> bias = call.has(2) ? as_doubles(call.input(2)) : std::vector<double>(static_cast<size_t>(weights.dim(0)), 0.0);
  Dims dims = {x.dim(0), weights.dim(0)};
  dims.insert(dims.end(), window.output.begin(), window.output.end());
  call.work.take(dims, {std::max<int64_t>(1, channels.in), window.n_taps()});
  Tensor result = new_tensor(x.dtype(), dims);
  if (result.size() == 0) return {result};
  const int64_t in_group = channels.in * element_count(window.input);
  const int64_t out_group = channels.out * element_count(window.output);
  visit_float(x.dtype(), [&]<class T>(Type<T>) {
    for (int64_t n = 0; n < x.dim(0); ++n) {
      for (int64_t g = 0; g < groups; ++g) {
        const auto group_bias = std::span(bias).subspan(static_cast<size_t>(g * channels.out), static_cast<size_t>(channels.out));
        convolve<T>(window, channels, x.data<T>().data() + (n * groups + g) * in_group,
                    weights.data<T>().data() + g * channels.out * channels.in * window.n_taps(), group_bias,
                    result.mutable_data<T>().data() + (n * groups + g) * out_group);
      }
    }
  });
  return {result};
}

// ConvTranspose slides the window over its output: an input element is added to what the forward convolution would read.
Window transposed_window(const Node& node, const Dims& input, const Dims& kernel) {
  const size_t rank = input.size();
  const Dims ones(rank, 1);
  const Dims zeros(rank, 0);
  const Dims strides = node.ints_or("strides", ones);
  const Dims dilations = node.ints_or("dilations", ones);
  const Dims extra = node.ints_or("output_padding", zeros);
  const Dims pads = node.ints_or("pads", Dims(2 * rank, 0));
  const Dims wanted = node.ints_or("output_shape", {});
  require(strides.size() == rank && dilations.size() == rank && extra.size() == rank && pads.size() == 2 * rank,
          "strides, dilations, output_padding or pads do not fit {} spatial axes", rank);
  require(wanted.empty() || wanted.size() == rank || wanted.size() == rank + 2, "output_shape {} does not fit", to_string(wanted));
  const std::string_view auto_pad = node.string_or("auto_pad", "NOTSET");
  Window window = {zeros, kernel, strides, dilations, zeros, zeros, input};
  for (size_t i = 0; i < rank; ++i) {
    constexpr int64_t kMost = int64_t{1} << 30;
    for (const int64_t value : {strides[i], dilations[i], kernel[i]})
      require(value > 0 && value < kMost, "a parameter has the value {}", value);
    for (const int64_t value : {extra[i], pads[i], pads[rank + i]})
      require(value >= 0 && value < kMost, "a padding has the value {}", value);
    require(input[i] < kMost, "the input has the spatial size {}", input[i]);
    const int64_t full = strides[i] * (input[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1;
    window.pads_begin[i] = auto_pad == "VALID" ? 0 : pads[i];
    window.pads_end[i] = auto_pad == "VALID" ? 0 : pads[rank + i];
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (!wanted.empty() || same) {
      window.input[i] = wanted.empty() ? input[i] * strides[i] : wanted[wanted.size() - rank + i];
      const int64_t total = std::max<int64_t>(0, full - window.input[i]);
      window.pads_begin[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.pads_end[i] = total - window.pads_begin[i];
    } else {
      window.input[i] = full - window.pads_begin[i] - window.pads_end[i];
    }
    require(window.input[i] >= 0 && window.input[i] < kMost, "the output would have the spatial size {}", window.input[i]);
  }
  return window;
}

template <class T>
void spread(const Window& window, const Channels& channels, const T* x, const T* weights, std::span<double> to) {
  const int64_t plane = element_count(window.output);
  const int64_t out_plane = element_count(window.input);
  const int64_t n_taps = window.n_taps();
  std::vector<int64_t> taps;
  int64_t position = 0;
  for_each_index(window.output, [&](const Dims& at) {
    window.taps(at, taps);
    for (int64_t c = 0; c < channels.in; ++c) {
      const auto value = static_cast<double>(x[c * plane + position]);
      for (int64_t m = 0; m < channels.out; ++m) {
        const T* const kernel = weights + (c * channels.out + m) * n_taps;
        for (size_t k = 0; k < taps.size(); ++k) {
          if (taps[k] >= 0) to[static_cast<size_t>(m * out_plane + taps[k])] += value * static_cast<double>(kernel[k]);
        }
      }
    }
    ++position;
  });
}

Tensors conv_transpose(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& weights = call.input(1);  // [in, out per group, kernel …]
  require_same_dtype(x, weights);
  const Window window = transposed_window(call.node, spatial(x), kernel_of(call.node, weights));
  const int64_t groups = groups_of(call.node, x);
  require(x.dim(1) == weights.dim(0), "weights of shape {} in {} groups do not fit an input of {}", to_string(weights.dims()), groups,
          to_string(x.dims()));
  const Channels channels = {groups, x.dim(1) / groups, weights.dim(1)};
  require_bias(call.optional(2), groups * channels.out);
  Dims dims = {x.dim(0), groups * channels.out};
  dims.insert(dims.end(), window.input.begin(), window.input.end());
  call.work.take(dims);
  call.work.take({x.size(), channels.out, window.n_taps()});
  Tensor result = new_tensor(x.dtype(), dims);
  if (result.size() == 0) return {result};
  const std::vector<double> bias = call.has(2) ? as_doubles(call.input(2)) : std::vector<double>(static_cast<size_t>(dims[1]), 0.0);
  const int64_t out_plane = element_count(window.input);
  const int64_t in_group = channels.in * element_count(window.output);
  std::vector<double> sums(static_cast<size_t>(channels.out * out_plane));
  visit_float(x.dtype(), [&]<class T>(Type<T>) {
    T* to = result.mutable_data<T>().data();
    for (int64_t i = 0; i < x.dim(0) * groups; ++i) {
      const int64_t g = i % groups;
      for (size_t k = 0; k < sums.size(); ++k) sums[k] = bias[static_cast<size_t>(g * channels.out) + k / static_cast<size_t>(out_plane)];
      spread<T>(window, channels, x.data<T>().data() + i * in_group,
                weights.data<T>().data() + g * channels.in * channels.out * window.n_taps(), sums);
      for (const double sum : sums) *to++ = static_cast<T>(sum);
    }
  });
  return {result};
}

}  // namespace

void add_conv(KernelTable& table) {
  table.add("Conv", in_f32<conv>);
  table.add("ConvTranspose", in_f32<conv_transpose>);
}

}  // namespace kvik::onnx
