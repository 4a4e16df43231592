#include <limits>

#include "base/hash.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/quantize_block.h"
#include "kernels/support.h"
#include "kvik/error.h"

namespace kvik::cpu {
namespace {

std::vector<float> column_of(const PackedWeights& w, int64_t n) {
  std::vector<float> column(static_cast<size_t>(w.layout.k));
  unpack_column(w, n, column.data());
  return column;
}

template <class T>
std::vector<T> convert(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

TEST(Pack, AFloatMatrixComesBackAsItsFormatHoldsItFromEveryTypeAndOrder) {
  ThreadPool pool(2);
  Numbers numbers;
  const int64_t k = 37, n = 70;
  std::vector<float> w = numbers.normals(k * n), transposed(w);
  for (float& v : w) v = static_cast<float>(BFloat16(v));
  w[0] = 0x1p-10f;  // exact in every type
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) transposed[static_cast<size_t>(j * k + i)] = w[static_cast<size_t>(i * n + j)];
  const auto check = [&](DType dtype, const void* data, bool n_major) {
    for (WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
      const Weights packed = pack(pool, FloatSource{dtype, data, k, n, n_major}, float_layout(format, k, n));
      for (int64_t j = 0; j < n; ++j) {
        const std::vector<float> column = column_of(packed.view, j);
        for (int64_t i = 0; i < k; ++i) {
          const float value = w[static_cast<size_t>(i * n + j)];
          const float expected = format == WeightFormat::kF16 ? static_cast<float>(Half(value)) : value;
          ASSERT_EQ(column[static_cast<size_t>(i)], dtype == DType::kF16 ? static_cast<float>(Half(expected)) : expected);
        }
      }
    }
  };
  for (bool n_major : {false, true}) {
    const std::vector<float>& source = n_major ? transposed : w;
    check(DType::kF32, source.data(), n_major);
    check(DType::kF16, convert<Half>(source).data(), n_major);
    check(DType::kBF16, convert<BFloat16>(source).data(), n_major);
    check(DType::kF64, convert<double>(source).data(), n_major);
  }
}

// Packed weights are kept in files: other bytes for the same matrix need another kPackingVersion.
TEST(Pack, TheBytesOfThisPackingVersionAreThese) {
  ThreadPool pool(2);
  const int64_t k = 200, n = 70;
  std::vector<float> w;
  uint32_t random = 1;
  for (int64_t i = 0; i < k * n; ++i)
    w.push_back(static_cast<float>(static_cast<int32_t>(random = random * 1664525u + 1013904223u)) * 0x1p-31f);
  const auto hash_of = [&](const WeightLayout& layout) {
    const Weights packed = pack(pool, FloatSource{DType::kF32, w.data(), k, n, true}, layout);
    Hash hash;
    hash.add(packed.memory.bytes());
    return hash.hex();
  };
  EXPECT_EQ(kPackingVersion, 3);
  EXPECT_EQ(hash_of(float_layout(WeightFormat::kF32, k, n)), "11de5ff079a75c675eb8731c83f80b94");
  EXPECT_EQ(hash_of(float_layout(WeightFormat::kF16, k, n)), "58b3d3d2bcf553df2ddcfaa0f4260394");
  EXPECT_EQ(hash_of(block_layout({.bits = 8, .block = 32}, k, n)), "99821769c69236523c7b8561a63cbea8");
  EXPECT_EQ(hash_of(block_layout({.bits = 6, .block = 32}, k, n)), "15da90579bed178230307a68cba42edb");
  EXPECT_EQ(hash_of(block_layout({.bits = 4, .block = 32}, k, n)), "f23419578a410b16f6254b5026d76629");
}

TEST(Pack, QuantizingKeepsWithinHalfAStep) {
  ThreadPool pool(1);
  Numbers numbers;
  const int64_t k = 200, n = 40;
  const std::vector<float> w = numbers.normals(k * n);
  for (int bits : {8, 6, 4})
    for (int block : {16, 32, 128}) {
      if (bits == 6 && block == 16) continue;
      const Weights packed = pack(pool, FloatSource{DType::kF32, w.data(), k, n, false},
                                  block_layout({bits, block, block == 16 ? ScaleFormat::kF32 : ScaleFormat::kF16, false}, k, n));
      for (int64_t j = 0; j < n; ++j) {
        const std::vector<float> column = column_of(packed.view, j);
        double error = 0, magnitude = 0;
        for (int64_t i = 0; i < k; ++i) {
          const float value = w[static_cast<size_t>(i * n + j)];
          error += std::pow(column[static_cast<size_t>(i)] - value, 2);
          magnitude += value * value;
        }
        EXPECT_LT(std::sqrt(error / magnitude), bits == 8 ? 0.01 : bits == 6 ? 0.033 : 0.13) << bits << " bits, block " << block;
      }
    }
}

TEST(Pack, ThreadsChangeNoByte) {
  Numbers numbers;
  const int64_t k = 90, n = 300;
  const std::vector<float> w = numbers.normals(k * n);
  const FloatSource source{DType::kF32, w.data(), k, n, false};
  ThreadPool one(1), three(3);
  for (const WeightLayout& layout :
       {block_layout({4}, k, n), block_layout({6}, k, n), block_layout({8}, k, n), float_layout(WeightFormat::kF16, k, n)}) {
    const Weights a = pack(one, source, layout), b = pack(three, source, layout);
    EXPECT_TRUE(std::ranges::equal(a.memory.bytes(), b.memory.bytes()));
  }
}

TEST(Pack, ScalesByChannelAndByTensorAreKept) {
  ThreadPool pool(1);
  Numbers numbers;
  const int64_t k = 150, n = 21;
  std::vector<int8_t> codes(static_cast<size_t>(k * n));
  for (int8_t& c : codes) c = static_cast<int8_t>(numbers.below(256));
  const std::vector<float> scales = numbers.normals(n, 0.1f);
  for (int64_t stride : {0, 1}) {
    QuantSource source{.k = k, .n = n, .block = k};
    source.codes = {codes.data(), DType::kI8, n, 1};
    source.scales = {scales.data(), DType::kF32, 0, stride};
    const Weights packed = pack(pool, source);
    EXPECT_FALSE(packed.view.layout.has_zero_points);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < k; ++i)
        ASSERT_EQ(column_of(packed.view, j)[static_cast<size_t>(i)],
                  static_cast<float>(codes[static_cast<size_t>(i * n + j)]) * scales[static_cast<size_t>(j * stride)]);
  }
}

TEST(Pack, SignedNibblesAndTheirZeroPointsAreKept) {
  ThreadPool pool(1);
  Numbers numbers;
  const int64_t k = 64, n = 5, block = 32;
  std::vector<uint8_t> codes(static_cast<size_t>(k * n / 2)), zero_points(static_cast<size_t>(n * 2 / 2));
  for (uint8_t& c : codes) c = static_cast<uint8_t>(numbers.below(256));
  for (uint8_t& z : zero_points) z = static_cast<uint8_t>(numbers.below(256));
  const std::vector<float> scales = numbers.normals(n * 2, 0.1f);
  QuantSource source{.k = k, .n = n, .block = block};
  source.codes = {codes.data(), DType::kI4, 1, k};
  source.scales = {scales.data(), DType::kF32, 1, 2};
  source.zero_points = {zero_points.data(), DType::kI4, 1, 2};
  const Weights packed = pack(pool, source);
  std::vector<float> expected(static_cast<size_t>(k));
  for (int64_t j = 0; j < n; ++j) {
    read_column(source, j, expected.data());
    EXPECT_TRUE(same_bits(column_of(packed.view, j), expected));
  }
}

TEST(Pack, ZeroPointsThatChangeNothingAreLeftOut) {
  const std::vector<uint8_t> codes(64 * 4, 3), zero_points(4 * 2, 0x88);
  const std::vector<float> scales(16, 0.5f);
  const QuantSource source = nbits_source({64, 4, 4, 16, codes.data(), scales.data(), DType::kF32, zero_points.data()});
  QuantSource wide = source;
  wide.block = 32;
  wide.scales.n_stride = wide.zero_points.n_stride = 2;
  EXPECT_FALSE(layout_for(wide).has_zero_points);
  EXPECT_TRUE(layout_for(source).has_zero_points);  // blocks of 16 always have them
}

// The scale that only reaches the largest weight loses on the others.
TEST(Pack, FourBitScalesFitTheWholeBlock) {
  Numbers numbers;
  double searched = 0, plain = 0;
  for (int block = 0; block < 200; ++block) {
    const std::vector<float> w = numbers.normals(block % 3 == 0 ? 29 : 32);  // the last block of a row may be short
    std::vector<int8_t> codes(w.size());
    const float scale = quantize_block(w, 4, codes), largest = *std::ranges::max_element(w, {}, [](float x) { return std::fabs(x); });
    for (size_t i = 0; i < w.size(); ++i) {
      ASSERT_GE(codes[i], 0);
      ASSERT_LE(codes[i], 15);
      const float unit = largest / -8.0f, code = std::clamp(std::nearbyint(w[i] / unit), -8.0f, 7.0f);
      searched += std::pow(static_cast<double>(w[i]) - static_cast<double>(scale) * (codes[i] - 8), 2);
      plain += std::pow(static_cast<double>(w[i] - unit * code), 2);
    }
  }
  EXPECT_LT(searched, 0.92 * plain);
}

TEST(Pack, WeightsThatAreNotNumbersOrDoNotFitAreRefused) {
  std::vector<float> w(32, 1.0f);
  std::vector<int8_t> codes(32);
  w[5] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(quantize_block(w, 8, codes), Error);
  w[5] = std::nanf("");
  EXPECT_THROW(quantize_block(w, 4, codes), Error);
  w[5] = 1e8f;
  EXPECT_THROW(quantize_block(w, 8, codes), Error);
  w[5] = 1e-12f;
  EXPECT_NO_THROW(quantize_block(w, 8, codes));
}

TEST(Pack, LayoutsThatDoNotExistAreRefused) {
  EXPECT_THROW(block_layout({.bits = 3}, 32, 16), Error);
  EXPECT_THROW(block_layout({.bits = 6, .scales = ScaleFormat::kF32}, 32, 16), Error);
  EXPECT_THROW(block_layout({.bits = 6, .block = 16}, 32, 16), Error);
  EXPECT_THROW(block_layout({.block = 48}, 48, 16), Error);
  EXPECT_THROW(block_layout({.zero_points = true}, 32, 16), Error);
  EXPECT_THROW(float_layout(WeightFormat::kF32, 0, 4), Error);
  EXPECT_THROW(float_layout(WeightFormat::kF32, int64_t{1} << 40, int64_t{1} << 40), Error);
  EXPECT_THROW(channel_layout(200000, 4), Error);
}

}  // namespace
}  // namespace kvik::cpu
