#include <algorithm>
#include <cmath>
#include <functional>

#include "base/aligned_buffer.h"
#include "kernels/cpu/block_codec.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/parallel.h"
#include "kernels/emulated_amx.h"
#include "kernels/support.h"
#include "kvik/error.h"

namespace kvik::cpu {
namespace {

constexpr int64_t kRows = 35;  // two whole tiles of the widest kernels and a part of one
constexpr float kUntouched = -12345.0f;

// Computes rows [first, first + n) and columns of the panels [begin, end) with one table.
using Product = std::function<void(const CpuKernels&, int64_t first, int64_t n, const MatmulOut&, PanelRange)>;

struct Case {
  std::string name;
  WeightLayout layout;
  Product product;
  int64_t k, n;
};

std::vector<float> run_rows(const Case& c, const CpuKernels& kernels, int64_t rows_at_once, int64_t cut, const float* bias) {
  std::vector<float> out(static_cast<size_t>(kRows * c.n), kUntouched);
  for (int64_t row = 0; row < kRows; row += rows_at_once) {
    const int64_t n_rows = std::min(rows_at_once, kRows - row);
    const MatmulOut to{out.data() + row * c.n, c.n, bias};
    c.product(kernels, row, n_rows, to, {0, cut});
    c.product(kernels, row, n_rows, to, {cut, c.layout.n_panels});
  }
  return out;
}

std::vector<const CpuKernels*> tested_tables() {
  std::vector<const CpuKernels*> tables(available().begin(), available().end());
  if (emulated_amx() != nullptr) tables.push_back(emulated_amx());
  return tables;
}

// The law: every table, number of rows and split of the panels gives the bits of the scalar table, row by row. Returns those.
std::vector<float> expect_one_result(const Case& c) {
  Numbers numbers(11);
  const std::vector<float> bias = numbers.normals(c.n);
  const std::vector<float> expected = run_rows(c, judge(), 1, 0, nullptr), with_bias = run_rows(c, judge(), 1, 0, bias.data());
  for (float v : expected) EXPECT_FALSE(v == kUntouched);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(with_bias[i], expected[i] + bias[i % static_cast<size_t>(c.n)]));
  for (const CpuKernels* kernels : tested_tables()) {
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 22, 35}) {
      const int64_t cut = numbers.below(static_cast<uint32_t>(c.layout.n_panels + 1));
      EXPECT_TRUE(same_bits(run_rows(c, *kernels, rows, cut, nullptr), expected))
          << c.name << ' ' << kernels->name << ", " << rows << " rows, cut " << cut << ", " << c.k << " x " << c.n;
    }
    EXPECT_TRUE(same_bits(run_rows(c, *kernels, 5, 0, bias.data()), with_bias)) << c.name << ' ' << kernels->name;
  }
  return expected;
}

// Against double, with what the kernel multiplies: `at` gives the row's value, `unpack_column` the weights.
void expect_right(const Case& c, const PackedWeights& weights, const std::vector<float>& out,
                  const std::function<double(int64_t row, int64_t k)>& at, double tolerance) {
  std::vector<float> column(static_cast<size_t>(c.k));
  for (int64_t n = 0; n < c.n; ++n) {
    unpack_column(weights, n, column.data());
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < c.k; ++k) {
        const double term = at(row, k) * static_cast<double>(column[static_cast<size_t>(k)]);
        sum += term;
        magnitude += std::fabs(term);
      }
      const float got = out[static_cast<size_t>(row * c.n + n)];
      ASSERT_NEAR(got, sum, tolerance * magnitude + 1e-30) << c.name << " row " << row << " column " << n;
    }
  }
}

struct Shape {
  int64_t k, n;
};
const std::vector<Shape> kShapes = {{1, 1},   {3, 5},     {16, 16},  {31, 33},  {32, 16},  {33, 40},
                                    {64, 17}, {100, 100}, {257, 65}, {896, 48}, {1100, 90}};

Case float_rows_case(std::string name, const Weights& w, const std::vector<float>& x) {
  const WeightLayout& l = w.view.layout;
  return {std::move(name), l,
          [&w, &x, k = l.k](const CpuKernels& kernels, int64_t first, int64_t n, const MatmulOut& out, PanelRange range) {
            kernels.matmul(w.view, {x.data() + first * k, k, n}, out, range);
          },
          l.k, l.n};
}

void check_float_rows(const std::string& name, const Weights& w, Numbers& numbers) {
  const int64_t k = w.view.layout.k;
  const std::vector<float> x = difficult_rows(numbers, kRows, k);
  const Case c = float_rows_case(name, w, x);
  const std::vector<float> out = expect_one_result(c);
  expect_right(
      c, w.view, out, [&](int64_t row, int64_t i) { return static_cast<double>(x[static_cast<size_t>(row * k + i)]); }, 3e-6);
}

// Each table quantizes for itself: that too must give one result.
void check_quantized_rows(const std::string& name, const Weights& w, Numbers& numbers) {
  const int64_t k = w.view.layout.k, n = w.view.layout.n;
  const std::vector<float> x = difficult_rows(numbers, kRows, k);
  AlignedBuffer memory(quantized_bytes(kRows, k));
  const QuantizedRows rows = quantized_rows(memory.data(), kRows, k, row_part(w.view.layout));
  const Case c{name, w.view.layout,
               [&](const CpuKernels& kernels, int64_t first, int64_t n_rows, const MatmulOut& out, PanelRange range) {
                 for (int64_t r = first; r < first + n_rows; ++r) kernels.quantize_row(x.data() + r * k, rows, r);
                 kernels.matmul_quantized(w.view, rows_from(rows, first, n_rows), out, range);
               },
               k, n};
  const std::vector<float> out = expect_one_result(c);
  const auto at = [&](int64_t row, int64_t i) {
    const float scale = rows.scale[row * rows.n_blocks + i / kRowBlock];
    return static_cast<double>(rows.q[row * rows.n_steps * 32 + i]) * static_cast<double>(scale);
  };
  expect_right(c, w.view, out, at, 3e-6);
}

TEST(Matmul, FloatWeightsGiveOneResultOnEveryPath) {
  ThreadPool pool(1);
  Numbers numbers;
  for (const Shape& s : kShapes) {
    const std::vector<float> w = numbers.normals(s.k * s.n);
    for (WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
      const Weights packed = pack(pool, FloatSource{DType::kF32, w.data(), s.k, s.n, false}, float_layout(format, s.k, s.n));
      check_float_rows("float " + std::to_string(static_cast<int>(format)), packed, numbers);
    }
  }
}

std::vector<BlockFormat> own_formats() {
  std::vector<BlockFormat> formats;
  for (int bits : {4, 8}) {
    for (int block : {32, 64, 128}) formats.push_back({bits, block, ScaleFormat::kF16, false});
    for (int block : {16, 32, 128}) formats.push_back({bits, block, ScaleFormat::kF32, false});
  }
  for (int block : {32, 64, 128}) formats.push_back({6, block, ScaleFormat::kF16, false});
  return formats;
}

TEST(Matmul, QuantizedWeightsGiveOneResultOnEveryPath) {
  ThreadPool pool(1);
  Numbers numbers;
  for (const Shape& s : kShapes) {
    const std::vector<float> w = numbers.normals(s.k * s.n);
    for (const BlockFormat& format : own_formats()) {
      const Weights packed = pack(pool, FloatSource{DType::kF32, w.data(), s.k, s.n, true}, block_layout(format, s.k, s.n));
      const std::string name = "blocks of " + std::to_string(format.block) + ", bits " + std::to_string(format.bits);
      check_quantized_rows(name, packed, numbers);
      check_float_rows(name + ", f32 rows", packed, numbers);
    }
  }
}

// The largest codes and rows: sums of 6-bit products just fit 16 bits.
TEST(Matmul, TheLargestSixBitCodesDoNotOverflow) {
  ThreadPool pool(1);
  Numbers numbers;
  const int64_t k = 96, n = 20;
  const std::vector<float> w(static_cast<size_t>(k * n), 1.0f);
  Weights packed = pack(pool, FloatSource{DType::kF32, w.data(), k, n, true}, block_layout({.bits = 6}, k, n));
  const WeightLayout& layout = packed.view.layout;
  for (int64_t panel = 0; panel < layout.n_panels; ++panel)
    for (int64_t b = 0; b < layout.n_blocks; ++b)
      std::fill_n(&packed.memory.data()[block_place(layout, panel, b).bytes_offset], layout.block_bytes, std::byte{255});
  check_quantized_rows("all codes 63", packed, numbers);
  AlignedBuffer memory(quantized_bytes(1, k));
  const QuantizedRows rows = quantized_rows(memory.data(), 1, k, row_part(packed.view.layout));
  const std::vector<float> x(static_cast<size_t>(k), 1.0f);
  for (const CpuKernels* kernels : available()) {
    std::vector<float> out(static_cast<size_t>(n)), column(static_cast<size_t>(k));
    kernels->quantize_row(x.data(), rows, 0);
    kernels->matmul_quantized(packed.view, rows, {out.data(), n, nullptr}, {0, layout.n_panels});
    unpack_column(packed.view, 3, column.data());
    EXPECT_NEAR(out[3], static_cast<float>(k) * column[0], 1e-3f * static_cast<float>(k) * std::fabs(column[0])) << kernels->name;
  }
}

struct NBits {
  std::vector<uint8_t> codes, zero_points;
  std::vector<float> scales;
  std::vector<Half> half_scales;
  NBitsTensors tensors{};
};

NBits random_nbits(Numbers& numbers, const Shape& s, int bits, int64_t block, bool zero_points) {
  NBits t;
  const int64_t n_blocks = (s.k + block - 1) / block;
  t.codes.resize(static_cast<size_t>(s.n * n_blocks * block * bits / 8));
  for (uint8_t& c : t.codes) c = static_cast<uint8_t>(numbers.below(256));
  // Column 0: the largest codes throughout.
  std::fill_n(t.codes.begin(), n_blocks * block * bits / 8, uint8_t{255});
  for (int64_t i = 0; i < s.n * n_blocks; ++i) t.scales.push_back(0.001f + 0.01f * std::fabs(numbers.normal()));
  t.zero_points.resize(static_cast<size_t>(s.n * (bits == 4 ? (n_blocks + 1) / 2 : n_blocks)));
  for (uint8_t& z : t.zero_points) z = static_cast<uint8_t>(numbers.below(256));
  t.tensors = {s.k, s.n, bits, block, t.codes.data(), t.scales.data(), DType::kF32, zero_points ? t.zero_points.data() : nullptr};
  return t;
}

TEST(Matmul, MatMulNBitsTensorsAreTakenAsTheyAre) {
  ThreadPool pool(1);
  Numbers numbers;
  for (const Shape& s : {Shape{16, 3}, Shape{40, 33}, Shape{100, 16}, Shape{256, 20}, Shape{600, 17}})
    for (int bits : {4, 8})
      for (int64_t block : {16, 32, 64, 128, 256})
        for (bool zero_points : {false, true}) {
          const NBits t = random_nbits(numbers, s, bits, block, zero_points);
          const QuantSource source = nbits_source(t.tensors);
          const Weights packed = pack(pool, source);
          std::vector<float> from_file(static_cast<size_t>(s.k)), from_packed(static_cast<size_t>(s.k));
          for (int64_t n = 0; n < s.n; ++n) {
            read_column(source, n, from_file.data());
            unpack_column(packed.view, n, from_packed.data());
            ASSERT_TRUE(same_bits(from_file, from_packed)) << bits << " bits, block " << block << ", column " << n;
          }
          const std::string name = "nbits " + std::to_string(bits) + " block " + std::to_string(block);
          check_quantized_rows(name, packed, numbers);
          check_float_rows(name + ", f32 rows", packed, numbers);
        }
}

TEST(Matmul, IntegerProductsAreThoseOfMatMulInteger) {
  ThreadPool pool(1);
  Numbers numbers;
  for (const Shape& s : kShapes)
    for (DType dtype : {DType::kI8, DType::kU8}) {
      std::vector<uint8_t> codes(static_cast<size_t>(s.k * s.n)), zero_points(static_cast<size_t>(s.n));
      for (uint8_t& c : codes) c = static_cast<uint8_t>(numbers.below(256));
      for (uint8_t& z : zero_points) z = static_cast<uint8_t>(numbers.below(256));
      for (int64_t i = 0; i < s.k; ++i) codes[static_cast<size_t>(i * s.n)] = i % 2 == 0 ? 128 : 127;  // column 0: the extremes
      std::vector<float> scales = numbers.normals(s.n, 0.01f);
      QuantSource source{.k = s.k, .n = s.n, .block = s.k};
      source.codes = {codes.data(), dtype, s.n, 1};
      source.scales = {scales.data(), DType::kF32, 0, 1};
      source.zero_points = {zero_points.data(), dtype, 0, 1};
      const Weights packed = pack_channels(pool, source);
      const std::vector<float> x = difficult_rows(numbers, kRows, s.k);
      AlignedBuffer memory(byte_rows_bytes(kRows, s.k));
      const ByteRows rows = byte_rows(memory.data(), kRows, s.k);
      const Case c{"channels", packed.view.layout,
                   [&](const CpuKernels& kernels, int64_t first, int64_t n, const MatmulOut& out, PanelRange range) {
                     for (int64_t r = first; r < first + n; ++r) kernels.quantize_bytes_row(x.data() + r * s.k, rows, r);
                     kernels.matmul_bytes(packed.view, rows_from(rows, first, n), out, range);
                   },
                   s.k, s.n};
      const std::vector<float> out = expect_one_result(c);
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t n = 0; n < s.n; ++n) {
          int32_t sum = 0;
          for (int64_t k = 0; k < s.k; ++k)
            sum +=
                (rows.q[row * rows.stride + k] + 128 - rows.zero_point[row]) * (code_at(source.codes, k, n) - zero_point_at(source, 0, n));
          const float expected = static_cast<float>(sum) * (rows.scale[row] * scales[static_cast<size_t>(n)]);
          ASSERT_TRUE(same_bits(out[static_cast<size_t>(row * s.n + n)], expected)) << row << ' ' << n;
        }
    }
}

// As QuantizeLinear does it; what the scale does not reach is clipped.
TEST(Matmul, RowsOfAFixedScaleAreQuantizedByItOnEveryPath) {
  Numbers numbers;
  const int64_t k = 70;
  const std::vector<float> x = difficult_rows(numbers, kRows, k);
  AlignedBuffer memory(byte_rows_bytes(kRows, k));
  ByteRows rows = byte_rows(memory.data(), kRows, k);
  rows.fixed_scale = 0.02f;
  rows.fixed_zero_point = 100;
  for (const CpuKernels* kernels : available()) {
    for (int64_t row = 0; row < kRows; ++row) {
      kernels->quantize_bytes_row(x.data() + row * k, rows, row);
      EXPECT_EQ(rows.scale[row], 0.02f);
      EXPECT_EQ(rows.zero_point[row], 100);
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        const float code = std::clamp(std::nearbyint(x[static_cast<size_t>(row * k + i)] / 0.02f) + 100.0f, 0.0f, 255.0f);
        ASSERT_EQ(rows.q[row * rows.stride + i], static_cast<int>(code) - 128) << kernels->name << ' ' << row << ' ' << i;
        sum += rows.q[row * rows.stride + i];
      }
      EXPECT_EQ(rows.sum[row], sum);
    }
  }
}

TEST(Matmul, ARowThatHoldsNanGivesNanAndItsNeighborsDoNot) {
  ThreadPool pool(1);
  Numbers numbers;
  const int64_t k = 70, n = 20;
  const std::vector<float> w = numbers.normals(k * n);
  std::vector<float> x = numbers.normals(3 * k);
  x[static_cast<size_t>(k + 40)] = std::nanf("");
  const FloatSource source{DType::kF32, w.data(), k, n, false};
  const Weights q8 = pack(pool, source, block_layout({}, k, n)), f32 = pack(pool, source, float_layout(WeightFormat::kF32, k, n));
  AlignedBuffer memory(quantized_bytes(3, k));
  const QuantizedRows rows = quantized_rows(memory.data(), 3, k, row_part(q8.view.layout));
  for (const CpuKernels* kernels : available()) {
    std::vector<float> out(static_cast<size_t>(3 * n)), exact(out);
    for (int64_t r = 0; r < 3; ++r) kernels->quantize_row(x.data() + r * k, rows, r);
    kernels->matmul_quantized(q8.view, rows, {out.data(), n, nullptr}, {0, q8.view.layout.n_panels});
    kernels->matmul(f32.view, {x.data(), k, 3}, {exact.data(), n, nullptr}, {0, f32.view.layout.n_panels});
    for (int64_t i = 0; i < 3 * n; ++i) {
      EXPECT_EQ(std::isnan(out[static_cast<size_t>(i)]), i / n == 1);
      EXPECT_EQ(std::isnan(exact[static_cast<size_t>(i)]), i / n == 1);
    }
  }
}

TEST(Matmul, ThreadsChangeNoBit) {
  Numbers numbers;
  const int64_t k = 320, n = 1000;
  const std::vector<float> w = numbers.normals(k * n), x = numbers.normals(kRows * k);
  ThreadPool one(1);
  const Weights packed = pack(one, FloatSource{DType::kF32, w.data(), k, n, false}, block_layout({}, k, n));
  std::vector<float> expected(static_cast<size_t>(kRows * n)), got(expected);
  matmul(one, fastest(), packed.view, FloatRows{x.data(), k, kRows}, {expected.data(), n, nullptr});
  for (int threads : {2, 3, 5}) {
    ThreadPool pool(threads);
    matmul(pool, fastest(), packed.view, FloatRows{x.data(), k, kRows}, {got.data(), n, nullptr});
    EXPECT_TRUE(same_bits(got, expected)) << threads;
  }
}

}  // namespace
}  // namespace kvik::cpu
