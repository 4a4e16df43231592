// The definition itself, against plain arithmetic in double.
#include <cmath>
#include <gmock/gmock.h>

#include "device/scenario.h"
#include "kernels/cpu/pack.h"
#include "kernels/device/math.h"
#include "kvik/error.h"
#include "support/host_device/host_device.h"
#include "support/host_device/host_units.h"
#include "support/host_device/tensor_core.h"
#include "tensor/small_float.h"

namespace kvik::testing_support {
namespace {

using device::WeightFormat;

TEST(TensorCore, SumsAreNearTheExactOnes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 1000; ++i) {
    uint16_t a[16], b[16];
    double exact = 0.5, largest = 0.5;
    for (int j = 0; j < 16; ++j) {
      const Half x = normal(random), y = normal(random);
      a[j] = x.bits, b[j] = y.bits;
      exact += static_cast<double>(float{x}) * float{y};
      largest = std::max(largest, std::abs(static_cast<double>(float{x}) * float{y}));
    }
    EXPECT_NEAR(tensor_core_sum(a, b, 0.5f), exact, largest * 17 / (1 << 24) + std::abs(exact) / (1 << 23));
  }
}

TEST(TensorCore, SumsDoNotDependOnOrderAndZerosChangeNothing) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  uint16_t a[32] = {}, b[32] = {};
  for (int j = 0; j < 16; ++j) a[j] = Half(normal(random)).bits, b[j] = Half(std::ldexp(normal(random), j % 5 * 3)).bits;
  const float sum = tensor_core_sum(a, b, 3.25f);
  for (int j = 0; j < 16; ++j) {
    std::swap(a[j], a[(j * 7 + 3) % 16]);
    std::swap(b[j], b[(j * 7 + 3) % 16]);
    EXPECT_EQ(tensor_core_sum(a, b, 3.25f), sum);
  }
  EXPECT_EQ(tensor_core_chain(a, b, 32), tensor_core_chain(a, b, 16));
}

TEST(TensorCore, InfinitiesAndNaNsSpread) {
  uint16_t a[16] = {}, b[16] = {};
  a[3] = Half(INFINITY).bits, b[3] = Half(1.0f).bits;
  EXPECT_EQ(tensor_core_sum(a, b, 1.0f), INFINITY);
  b[3] = 0;
  EXPECT_TRUE(std::isnan(tensor_core_sum(a, b, 1.0f)));
}

// Every format keeps the values that the CPU's packing keeps.
TEST(Units, KeepTheWeightsOfTheCpusPacking) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 0.1f);
  constexpr int64_t kK = 100, kN = 37;
  std::vector<float> matrix(kK * kN);
  for (float& x : matrix) x = normal(random);
  const cpu::FloatSource source{DType::kF32, matrix.data(), kK, kN, true};
  ThreadPool pool(1);
  for (const cpu::WeightLayout& packing :
       {cpu::float_layout(cpu::WeightFormat::kF32, kK, kN), cpu::float_layout(cpu::WeightFormat::kF16, kK, kN),
        cpu::float_layout(cpu::WeightFormat::kBF16, kK, kN), cpu::block_layout({8, 32}, kK, kN), cpu::block_layout({6, 32}, kK, kN),
        cpu::block_layout({4, 32}, kK, kN), cpu::block_layout({4, 64, cpu::ScaleFormat::kF32}, kK, kN),
        cpu::block_layout({8, 16, cpu::ScaleFormat::kF32}, kK, kN)}) {
    const cpu::Weights packed = cpu::pack(pool, source, packing);
    const WeightFormat format = *device::unit_format(packing);
    const device::UnitLayout layout = device::unit_layout(format, kK, kN);
    std::vector<std::byte> units(static_cast<size_t>(layout.size_bytes));
    std::vector<float> scales(kN), column(kK);
    for (int64_t tile = 0; tile < layout.n_tiles; ++tile)
      device::pack_units(packed.view, layout, {tile, tile + 1}, units.data() + tile * layout.units_per_tile * layout.unit_bytes, scales);
    const auto address = [](const void* p) { return device::Address{reinterpret_cast<uint64_t>(p)}; };
    const UnitReader reader({address(units.data()), address(scales.data()), format, kK, kN});
    for (int64_t n = 0; n < kN; ++n) {
      cpu::unpack_column(packed.view, n, column.data());
      for (int64_t k = 0; k < kK; ++k) {
        const float expected = column[static_cast<size_t>(k)];
        const float tolerance = format == WeightFormat::kF32 ? std::abs(expected) * 1e-6f : 0.0f;
        ASSERT_NEAR(reader.value(n, k), expected, tolerance) << "format " << static_cast<int>(format) << ", column " << n << ", k " << k;
      }
    }
  }
}

TEST(Units, ARangeOfTilesIsPackedAsInTheWhole) {
  std::vector<float> matrix(64 * 64);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i % 97) - 40.0f;
  const cpu::FloatSource source{DType::kF32, matrix.data(), 64, 64, false};
  const device::UnitLayout layout = device::unit_layout(WeightFormat::kF32, 64, 64);
  std::vector<std::byte> whole(static_cast<size_t>(layout.size_bytes)), tile(static_cast<size_t>(layout.size_bytes / layout.n_tiles));
  std::vector<float> scales(64);
  device::pack_units(source, layout, {0, layout.n_tiles}, whole.data(), scales);
  device::pack_units(source, layout, {2, 3}, tile.data(), scales);
  EXPECT_EQ(std::memcmp(tile.data(), whole.data() + 2 * tile.size(), tile.size()), 0);
}

// In both orders, and with a k and an n that end inside of a word and of a tile.
TEST(Units, OfHalvesAreThoseOfTheCpusPacking) {
  constexpr int64_t kK = 101, kN = 37;
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 0.1f);
  std::vector<Half> matrix(kK * kN);
  for (Half& x : matrix) x = Half(normal(random));
  ThreadPool pool(1);
  const device::UnitLayout layout = device::unit_layout(WeightFormat::kF16, kK, kN);
  for (const bool n_major : {false, true}) {
    const cpu::FloatSource source{DType::kF16, matrix.data(), kK, kN, n_major};
    const cpu::Weights packed = cpu::pack(pool, source, cpu::float_layout(cpu::WeightFormat::kF16, kK, kN));
    std::vector<std::byte> expected(static_cast<size_t>(layout.size_bytes)), units(expected.size(), std::byte{0xff});
    std::vector<float> scales(kN), no_scales(kN);
    device::pack_units(packed.view, layout, {0, layout.n_tiles}, expected.data(), scales);
    device::pack_units(source, layout, {0, layout.n_tiles}, units.data(), no_scales);
    EXPECT_EQ(std::memcmp(units.data(), expected.data(), units.size()), 0) << n_major;
    EXPECT_EQ(no_scales, std::vector<float>(kN, 1.0f));
  }
}

struct FunctionCase {
  Unary op;
  double (*exact)(double);
  float least, most;
};

TEST(DeviceMath, FunctionsAreNearTheExactOnes) {
  const FunctionCase cases[] = {
      {Unary::kExp, std::exp, -80.0f, 80.0f},         {Unary::kLog, std::log, 1e-6f, 1e6f},
      {Unary::kTanh, std::tanh, -9.0f, 9.0f},         {Unary::kErf, std::erf, -4.0f, 4.0f},
      {Unary::kSin, std::sin, -1e6f, 1e6f},           {Unary::kCos, std::cos, -1e5f, 1e5f},
      {Unary::kSqrt, std::sqrt, 0.0f, 1e9f},          {Unary::kFloor, std::floor, -9e6f, 9e6f},
      {Unary::kRound, std::nearbyint, -99.0f, 99.0f}, {Unary::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, -20.0f, 20.0f},
  };
  std::mt19937 random(4);
  for (const FunctionCase& one : cases) {
    std::uniform_real_distribution<float> uniform(one.least, one.most);
    for (int i = 0; i < 2000; ++i) {
      const float x = uniform(random);
      const double exact = one.exact(static_cast<double>(x));
      EXPECT_NEAR(device::unary_of(one.op, x), exact, std::abs(exact) * 4e-7 + 1e-7)
          << "function " << static_cast<int>(one.op) << " of " << x;
    }
  }
}

TEST(DeviceMath, PowersAreNearTheExactOnes) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> base(0.001f, 100.0f), exponent(-8.0f, 8.0f);
  for (int i = 0; i < 2000; ++i) {
    const float a = base(random), b = exponent(random);
    const double exact = std::pow(static_cast<double>(a), static_cast<double>(b));
    EXPECT_NEAR(device::pow_of(a, b), exact, exact * 1.2e-7) << a << " to the " << b;
  }
  EXPECT_EQ(device::pow_of(-2.0f, 5.0f), -32.0f);
  EXPECT_EQ(device::pow_of(0.0f, -1.5f), INFINITY);
  EXPECT_TRUE(std::isnan(device::pow_of(-2.0f, 0.5f)));
}

TEST(HostDevice, AProductIsNearTheExactOne) {
  HostDevice host;
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kQ8, WeightFormat::kQ4}) {
    constexpr int kK = 600, kN = 20;
    Scenario s(host, 9);
    const device::Rows rows = s.rows(1, 1);
    const std::vector<float> x = s.floats(kK);
    const int planes = format == WeightFormat::kF32 ? 2 : 1;
    device::ToHalf half{.rows = rows, .x = s.values_of(1, kK, x), .k = kK, .planes = planes, .padded_k = 640};
    half.out = s.scratch(1, planes * 640 * 2), half.scale = s.scratch(1, 4);
    const device::Weights weights = s.weights(format, kK, kN);
    s.add(half);
    s.add(device::Matrix{.rows = rows, .x = half.out, .scale = half.scale, .weights = weights, .out = s.output(1, kN * 4)});
    const std::vector<uint32_t> y = s.run({});
    const UnitReader reader(weights);
    for (int64_t n = 0; n < kN; ++n) {
      double exact = 0, size = 0;
      for (int64_t k = 0; k < kK; ++k) {
        const double product = static_cast<double>(reader.value(n, k)) * x[static_cast<size_t>(k)];
        exact += product, size += std::abs(product);
      }
      EXPECT_NEAR(device::float_of(y[static_cast<size_t>(n)]), exact, size * (planes == 2 ? 1e-6 : 5e-4)) << static_cast<int>(format);
    }
  }
}

// Softmax of q.k, times v, in double.
std::vector<double> exact_attention(std::span<const float> q, std::span<const float> k, std::span<const float> v, size_t n_keys,
                                    double scale) {
  const size_t dim = q.size();
  std::vector<double> weights(n_keys), out(dim);
  double total = 0;
  for (size_t key = 0; key < n_keys; ++key) {
    double score = 0;
    for (size_t d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * k[key * dim + d];
    weights[key] = std::exp(score * scale);
    total += weights[key];
  }
  for (size_t key = 0; key < n_keys; ++key)
    for (size_t d = 0; d < dim; ++d) out[d] += weights[key] / total * v[key * dim + d];
  return out;
}

TEST(HostDevice, AttentionIsNearTheExactOne) {
  HostDevice host;
  for (const int planes : {1, 2}) {
    constexpr int kDim = 20, kKeys = 300;
    Scenario s(host, 11);
    const std::vector<float> q = s.floats(kDim), k = s.floats(kKeys * kDim), v = s.floats(kKeys * kDim);
    const device::KvLayout layout = device::kv_layout(planes, 1, kDim, kDim);
    std::vector<device::Address> pages;
    for (int i = 0; i < (kKeys + 31) / 32; ++i) pages.push_back(s.room(layout.page_bytes));
    const device::PageTable table{s.put(pages), static_cast<int64_t>(pages.size())};
    std::vector<device::Row> kept;
    for (int i = 0; i < kKeys; ++i) kept.push_back({.position = i});
    const device::Rows all{s.put(kept), s.put(std::vector<int32_t>{kKeys}), kKeys};
    s.add(
        device::Append{.rows = all, .k = s.values_of(kKeys, kDim, k), .v = s.values_of(kKeys, kDim, v), .pages = table, .layout = layout});
    const device::Rows rows{s.put(std::vector<device::Row>{kept.back()}), s.put(std::vector<int32_t>{1}), 1};
    const device::AttendParts parts{s.room(3 * (2 + kDim) * 4), 3, 1};
    device::Attend attend{.rows = rows, .q = s.values_of(1, kDim, q), .pages = table, .layout = layout, .n_heads = 1, .most_heads = 1};
    attend.heads = s.put(std::vector<int32_t>{0});
    attend.first_heads = s.put(std::vector<int32_t>{0, 1});
    attend.rule.scale = 0.2f;
    attend.parts = parts;
    s.add(attend);
    s.add(device::MergeSpans{
        .rows = rows, .n_heads = 1, .value_dim = kDim, .rule = attend.rule, .parts = parts, .out = s.output(1, kDim * 4)});
    const std::vector<uint32_t> y = s.run({.recorded = true});
    const std::vector<double> exact = exact_attention(q, k, v, kKeys, 0.2);
    for (size_t d = 0; d < kDim; ++d)
      EXPECT_NEAR(device::float_of(y[d]), exact[d], planes == 2 ? 2e-6 : 2e-3) << "dimension " << d << ", planes " << planes;
  }
}

TEST(HostDevice, FailsAtTheAllocationAndStepItIsToldTo) {
  HostDevice short_of_memory({.fail_allocation = 1});
  const device::Address first = short_of_memory.allocate(10, "a test");
  EXPECT_THROW(short_of_memory.allocate(10, "a test"), Error);
  short_of_memory.release(first);
  EXPECT_EQ(short_of_memory.used_bytes(), 0u);

  HostDevice failing({.fail_step = 0});
  EXPECT_THROW(failing.run(device::CopyBytes{}), Error);
  EXPECT_THROW(failing.wait(), Error);
}

}  // namespace
}  // namespace kvik::testing_support
