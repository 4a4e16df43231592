#include <cmath>
#include <complex>
#include <numbers>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"

// Fourier transforms by definition, in double, and related operators of speech models.
namespace kvik::onnx {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kLongestTransform = 1 << 16;  // of a transform; its cost is quadratic

// sum over n of x[n] e^(sign 2 pi i k n / N), for the first `n_bins` k.
std::vector<Complex> transform(const std::vector<Complex>& x, int64_t n_bins, bool inverse) {
  const size_t n = x.size();
  std::vector<Complex> roots(n);
  const double step = (inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) roots[i] = std::polar(1.0, step * static_cast<double>(i));
  std::vector<Complex> result(static_cast<size_t>(n_bins));
  for (size_t k = 0; k < result.size(); ++k) {
    Complex total = 0;
    for (size_t i = 0; i < n; ++i) total += x[i] * roots[k * i % n];
    result[k] = inverse ? total / static_cast<double>(n) : total;
  }
  return result;
}

struct DftPlan {
  int64_t length;
  bool inverse;
  bool onesided;

  // How many numbers one transform reads and writes.
  int64_t n_read() const { return inverse && onesided ? length / 2 + 1 : length; }
  int64_t n_bins() const { return !inverse && onesided ? length / 2 + 1 : length; }
  bool real_result() const { return inverse && onesided; }
};

std::vector<Complex> run_dft(std::vector<Complex> row, const DftPlan& plan) {
  row.resize(static_cast<size_t>(plan.n_read()), 0.0);
  if (plan.real_result()) {  // the other half is the complex conjugate
    row.resize(static_cast<size_t>(plan.length));
    row[0] = row[0].real();
    for (size_t k = static_cast<size_t>(plan.length / 2) + 1; k < row.size(); ++k) row[k] = std::conj(row[row.size() - k]);
    if (plan.length % 2 == 0) row[row.size() / 2] = row[row.size() / 2].real();
  }
  return transform(row, plan.n_bins(), plan.inverse);
}

Tensors dft(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int64_t parts = x.rank() >= 2 ? x.dim(-1) : 0;
  require(parts == 1 || parts == 2, "the last axis of shape {} must have 1 (real) or 2 (complex) elements", to_string(x.dims()));
  const int64_t given = call.node.opset < 20 ? call.node.int_or("axis", 1) : call.has(2) ? as_int(call.input(2)) : -2;
  const int axis = normal_axis(given, x.rank());
  require(axis != x.rank() - 1, "the last axis has real and imaginary parts and cannot be transformed");
  DftPlan plan = {x.dim(axis), call.node.int_or("inverse", 0) != 0, call.node.int_or("onesided", 0) != 0};
  if (plan.real_result()) plan.length = 2 * (x.dim(axis) - 1);
  if (call.has(1)) plan.length = as_int(call.input(1));
  require(plan.length > 0 && plan.length <= kLongestTransform, "invalid transform length {}", plan.length);
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = plan.n_bins();
  dims.back() = plan.real_result() ? 1 : 2;
  call.work.take(dims, {plan.length});
  Tensor result = new_tensor(DType::kF64, dims);
  if (result.size() == 0 || x.size() == 0) return {cast(result, x.dtype())};
  const std::vector<double> values = as_doubles(x);
  const auto to = result.mutable_data<double>();
  const auto [outer, n, inner] = split_at({x.dims().begin(), x.dims().end() - 1}, axis);
  for (int64_t line = 0; line < outer * inner; ++line) {
    std::vector<Complex> row;
    for (int64_t i = 0; i < std::min(n, plan.n_read()); ++i) {
      const auto at = static_cast<size_t>(((line / inner * n + i) * inner + line % inner) * parts);
      row.emplace_back(values[at], parts == 2 ? values[at + 1] : 0.0);
    }
    const std::vector<Complex> bins = run_dft(std::move(row), plan);
    for (size_t k = 0; k < bins.size(); ++k) {
      const int64_t element = (line / inner * plan.n_bins() + static_cast<int64_t>(k)) * inner + line % inner;
      to[static_cast<size_t>(element * dims.back())] = bins[k].real();
      if (dims.back() == 2) to[static_cast<size_t>(element * 2 + 1)] = bins[k].imag();
    }
  }
  return {cast(result, x.dtype())};
}

Tensors stft(const KernelCall& call) {
  const Tensor& x = call.input(0);  // [batch, samples, 1 or 2]
  require(x.rank() == 3 && (x.dim(2) == 1 || x.dim(2) == 2), "found a signal of shape {}; expected [batch, samples, 1]",
          to_string(x.dims()));
  const int64_t step = as_int(call.input(1));
  require(call.has(2) || call.has(3), "neither a window nor a frame length is given");
  const int64_t length = call.has(3) ? as_int(call.input(3)) : call.input(2).size();
  require(step > 0 && length > 0 && length <= kLongestTransform && length <= x.dim(1), "frames of {} every {} do not fit {} samples",
          length, step, x.dim(1));
  const std::vector<double> window = call.has(2) ? as_doubles(call.input(2)) : std::vector<double>(static_cast<size_t>(length), 1.0);
  require(static_cast<int64_t>(window.size()) <= length, "a window of {} exceeds frames of {}", window.size(), length);
  const DftPlan plan = {length, false, call.node.int_or("onesided", 1) != 0};
  const int64_t n_frames = (x.dim(1) - length) / step + 1;
  call.work.take({x.dim(0), n_frames, plan.n_bins(), 2, length});
  Tensor result = new_tensor(DType::kF64, {x.dim(0), n_frames, plan.n_bins(), 2});
  const std::vector<double> values = as_doubles(x);
  const auto to = result.mutable_data<double>();
  size_t at = 0;
  for (int64_t frame = 0; frame < x.dim(0) * n_frames; ++frame) {
    const int64_t start = frame / n_frames * x.dim(1) + frame % n_frames * step;
    std::vector<Complex> row;
    for (size_t i = 0; i < window.size(); ++i) {
      const auto from = (static_cast<size_t>(start) + i) * static_cast<size_t>(x.dim(2));
      row.push_back(window[i] * Complex(values[from], x.dim(2) == 2 ? values[from + 1] : 0.0));
    }
    for (const Complex bin : run_dft(std::move(row), plan)) {
      to[at++] = bin.real();
      to[at++] = bin.imag();
    }
  }
  return {cast(result, x.dtype())};
}

DType output_type(const KernelCall& call) {
  const int64_t dtype = call.node.int_or("output_datatype", 1);
  require(dtype > 0 && dtype <= kLastDType, "the type {} is unknown", dtype);
  return static_cast<DType>(dtype);
}

// a - b cos(2 pi n / N) + c cos(4 pi n / N).
Tensors cosine_window(const KernelCall& call, double a, double b, double c) {
  const int64_t size = as_int(call.input(0));
  call.work.take({size});
  Tensor result = new_tensor(DType::kF64, {size});
  const double period = static_cast<double>(call.node.int_or("periodic", 1) != 0 ? size : size - 1);
  const auto to = result.mutable_data<double>();
  for (size_t i = 0; i < to.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    to[i] = a - b * std::cos(angle) + c * std::cos(2 * angle);
  }
  return {cast(result, output_type(call))};
}

Tensors hann_window(const KernelCall& call) { return cosine_window(call, 0.5, 0.5, 0); }
Tensors hamming_window(const KernelCall& call) { return cosine_window(call, 25.0 / 46.0, 21.0 / 46.0, 0); }
Tensors blackman_window(const KernelCall& call) { return cosine_window(call, 0.42, 0.5, 0.08); }

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10.0, mel / 2595) - 1); }

Tensors mel_weight_matrix(const KernelCall& call) {
  const int64_t n_mels = as_int(call.input(0));
  const int64_t length = as_int(call.input(1));
  const auto rate = static_cast<double>(as_int(call.input(2)));
  require(n_mels > 0 && n_mels <= kLongestTransform && length > 0 && length <= kLongestTransform * 16 && rate > 0,
          "invalid number of bands {} for a transform of {}", n_mels, length);
  const double low = mel_of(as_double(call.input(3)));
  const double step = (mel_of(as_double(call.input(4))) - low) / static_cast<double>(n_mels + 2);
  const int64_t n_bins = length / 2 + 1;
  call.work.take({n_bins, n_mels});
  Tensor result = new_tensor(DType::kF64, {n_bins, n_mels});
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < n_mels + 2; ++i) {
    const double bin = std::floor(static_cast<double>(length + 1) * hertz_of(low + step * static_cast<double>(i)) / rate);
    require(bin >= 0 && bin < static_cast<double>(n_bins), "a band ends at bin {} of {}", bin, n_bins);
    edges.push_back(static_cast<int64_t>(bin));
  }
  const auto to = result.mutable_data<double>();
  for (int64_t i = 0; i < n_mels; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t left = edges[at], center = edges[at + 1], right = edges[at + 2];
    const auto weight = [&](int64_t bin) -> double& { return to[static_cast<size_t>(bin * n_mels + i)]; };
    if (left == center) weight(center) = 1;
    for (int64_t j = left; left < center && j <= center; ++j)
      weight(j) = static_cast<double>(j - left) / static_cast<double>(center - left);
    for (int64_t j = center; j < right; ++j) weight(j) = static_cast<double>(right - j) / static_cast<double>(right - center);
  }
  return {cast(result, output_type(call))};
}

}  // namespace

void add_signal(KernelTable& table) {
  table.add("BlackmanWindow", blackman_window);
  table.add("DFT", dft);
  table.add("HammingWindow", hamming_window);
  table.add("HannWindow", hann_window);
  table.add("MelWeightMatrix", mel_weight_matrix);
  table.add("STFT", stft);
}

}  // namespace kvik::onnx
