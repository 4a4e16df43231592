#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/window.h"

// A convolution of images whose taps are moved by an input, and read between elements.
namespace kvik::onnx {
namespace {

// Between the four neighbours; zero outside.
double read_between(const double* plane, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && x > -1 && y < static_cast<double>(height) && x < static_cast<double>(width))) return 0;
  const auto y0 = static_cast<int64_t>(std::floor(y));
  const auto x0 = static_cast<int64_t>(std::floor(x));
  const double fy = y - std::floor(y);
  const double fx = x - std::floor(x);
  const auto at = [&](int64_t row, int64_t column) {
    return row < 0 || row >= height || column < 0 || column >= width ? 0.0 : plane[row * width + column];
  };
  return (1 - fy) * ((1 - fx) * at(y0, x0) + fx * at(y0, x0 + 1)) + fy * ((1 - fx) * at(y0 + 1, x0) + fx * at(y0 + 1, x0 + 1));
}

struct Inputs {
  const Tensor& x;        // [batch, in, height, width]
  const Tensor& weights;  // [out, in of one group, kernel height, kernel width]
  Window window;
  int64_t groups;
  int64_t offset_groups;
  std::vector<double> values, kernels, offsets, bias, mask;

  int64_t n_places() const { return element_count(window.output); }
};

Inputs inputs_of(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& w = call.input(1);
  require_rank(x, 4, "the input");
  require_rank(w, 4, "the kernel");
  Inputs in = {
      x,  w, window_of(call.node, spatial(x), spatial(w)), call.node.int_or("group", 1), call.node.int_or("offset_group", 1), {}, {}, {},
      {}, {}};
  require(in.groups > 0 && in.groups <= std::max<int64_t>(1, x.dim(1)) && w.dim(0) % in.groups == 0 && x.dim(1) % in.groups == 0 &&
              x.dim(1) / in.groups == w.dim(1),
          "a kernel of shape {} in {} groups does not fit {}", to_string(w.dims()), in.groups, to_string(x.dims()));
  require(in.offset_groups > 0 && x.dim(1) % in.offset_groups == 0, "{} channels cannot be divided into {} offset groups", x.dim(1),
          in.offset_groups);
  const int64_t n_taps = in.offset_groups * in.window.n_taps();
  const auto expect = [&](size_t i, const Dims& dims) {
    require(call.input(i).dims() == dims, "input {} has shape {}, {} was expected", i, to_string(call.input(i).dims()), to_string(dims));
    return as_doubles(call.input(i));
  };
  const Dims& out = in.window.output;
  in.values = as_doubles(x);
  in.kernels = as_doubles(w);
  in.offsets = expect(2, {x.dim(0), 2 * n_taps, out[0], out[1]});
  in.bias = call.has(3) ? expect(3, {w.dim(0)}) : std::vector<double>(static_cast<size_t>(w.dim(0)), 0.0);
  in.mask = call.has(4) ? expect(4, {x.dim(0), n_taps, out[0], out[1]}) : std::vector<double>(in.offsets.size() / 2, 1.0);
  return in;
}

// What input channel c shows at a tap of the window that stands at `place`.
double sample(const Inputs& in, int64_t image, int64_t channel, int64_t place, int64_t tap) {
  const Window& w = in.window;
  const int64_t og = channel / (in.x.dim(1) / in.offset_groups);
  const int64_t at = (image * in.offset_groups + og) * w.n_taps() + tap;
  const double dy = in.offsets[static_cast<size_t>(2 * at * in.n_places() + place)];
  const double dx = in.offsets[static_cast<size_t>((2 * at + 1) * in.n_places() + place)];
  const int64_t y = place / w.output[1] * w.strides[0] + tap / w.kernel[1] * w.dilations[0] - w.pads_begin[0];
  const int64_t x = place % w.output[1] * w.strides[1] + tap % w.kernel[1] * w.dilations[1] - w.pads_begin[1];
  const double* const plane = in.values.data() + (image * in.x.dim(1) + channel) * w.input[0] * w.input[1];
  const double value = read_between(plane, w.input[0], w.input[1], static_cast<double>(y) + dy, static_cast<double>(x) + dx);
  return value * in.mask[static_cast<size_t>(at * in.n_places() + place)];
}

Tensors deform_conv(const KernelCall& call) {
  const Inputs in = inputs_of(call);
  const int64_t n_out = in.weights.dim(0);
  const int64_t n_in = in.weights.dim(1);
  const int64_t n_taps = in.window.n_taps();
  const Dims dims = {in.x.dim(0), n_out, in.window.output[0], in.window.output[1]};
  call.work.take(dims, {std::max<int64_t>(1, n_in), n_taps});
  Tensor result = new_tensor(DType::kF64, dims);
  const auto to = result.mutable_data<double>();
  for (int64_t i = 0; i < result.size(); ++i) {
    const int64_t place = i % in.n_places();
    const int64_t out = i / in.n_places() % n_out;
    double total = in.bias[static_cast<size_t>(out)];
    for (int64_t k = 0; k < n_in * n_taps; ++k) {
      const int64_t channel = out / (n_out / in.groups) * n_in + k / n_taps;
      total += in.kernels[static_cast<size_t>(out * n_in * n_taps + k)] * sample(in, i / in.n_places() / n_out, channel, place, k % n_taps);
    }
    to[static_cast<size_t>(i)] = total;
  }
  return {cast(result, in.x.dtype())};
}

}  // namespace

void add_deform_conv(KernelTable& table) { table.add("DeformConv", deform_conv); }

}  // namespace kvik::onnx
