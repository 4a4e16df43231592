#include "onnx/eval/ops/window.h"

#include <algorithm>

#include "onnx/eval/ops/broadcast.h"

namespace kvik::onnx {
namespace {

constexpr int64_t kMost = int64_t{1} << 30;  // per parameter, so that products of two do not overflow
constexpr int64_t kMostTaps = int64_t{1} << 24;

Dims parameter(const Node& node, std::string_view name, size_t rank, int64_t absent, int64_t least) {
  Dims values = node.ints_or(name, Dims(rank, absent));
  require(values.size() == rank, "{} has {} values for {} spatial axes", name, values.size(), rank);
  for (const int64_t value : values) require(value >= least && value < kMost, "{} has the value {}", name, value);
  return values;
}

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

void pad_to_same_size(Window& window, bool upper) {
  for (size_t i = 0; i < window.rank(); ++i) {
    window.output[i] = ceil_div(window.input[i], window.strides[i]);
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t total = std::max<int64_t>(0, (window.output[i] - 1) * window.strides[i] + reach - window.input[i]);
    window.pads_begin[i] = upper ? total / 2 : total - total / 2;
    window.pads_end[i] = total - window.pads_begin[i];
  }
}

int64_t output_size(const Window& window, size_t i, bool round_up) {
  const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
  const int64_t room = window.input[i] + window.pads_begin[i] + window.pads_end[i] - reach;
  if (room < 0) return 0;
  const int64_t n = (round_up ? ceil_div(room, window.strides[i]) : room / window.strides[i]) + 1;
  // A window that would start in the padding after the input is dropped.
  return round_up && (n - 1) * window.strides[i] >= window.input[i] + window.pads_begin[i] ? n - 1 : n;
}

}  // namespace

void Window::taps(const Dims& at, std::vector<int64_t>& offsets) const {
  const Dims steps = strides_of(input);
  offsets.clear();
  for (Walk<0> walk(kernel, {}); walk.more(); walk.next()) {
    int64_t offset = 0;
    for (size_t i = 0; i < kernel.size() && offset >= 0; ++i) {
      const int64_t x = at[i] * strides[i] + walk.index()[i] * dilations[i] - pads_begin[i];
      offset = x < 0 || x >= input[i] ? -1 : offset + x * steps[i];
    }
    offsets.push_back(offset);
  }
}

Window window_of(const Node& node, const Dims& input, const Dims& kernel) {
  const size_t rank = input.size();
  require(kernel.size() == rank, "a kernel of {} does not fit {} spatial axes", to_string(kernel), rank);
  for (const int64_t size : kernel) require(size > 0 && size < kMost, "the kernel has size {}", size);
  require(element_count(kernel) <= kMostTaps, "a kernel of {} has more than {} elements", to_string(kernel), kMostTaps);
  for (const int64_t size : input) require(size < kMost, "the input has the spatial size {}", size);
  Window window = {
      input,         kernel,       parameter(node, "strides", rank, 1, 1), parameter(node, "dilations", rank, 1, 1), Dims(rank, 0),
      Dims(rank, 0), Dims(rank, 0)};
  const std::string_view auto_pad = node.string_or("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    pad_to_same_size(window, auto_pad == "SAME_UPPER");
    return window;
  }
  if (auto_pad != "VALID") {
    require(auto_pad == "NOTSET" || auto_pad.empty(), "auto_pad '{}' is unknown", auto_pad);
    const Dims pads = parameter(node, "pads", 2 * rank, 0, 0);
    window.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
    window.pads_end.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  }
  const bool round_up = node.int_or("ceil_mode", 0) != 0;
  for (size_t i = 0; i < rank; ++i) window.output[i] = output_size(window, i, round_up);
  return window;
}

void for_each_index(const Dims& dims, const std::function<void(const Dims&)>& f) {
  for (Walk<0> walk(dims, {}); walk.more(); walk.next()) f(walk.index());
}

Dims spatial(const Tensor& x) {
  require(x.rank() >= 2, "a tensor of shape {} has no batch and channels", to_string(x.dims()));
  return {x.dims().begin() + 2, x.dims().end()};
}

}  // namespace kvik::onnx
