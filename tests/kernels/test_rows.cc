#include <algorithm>
#include <functional>
#include <limits>

#include "base/aligned_buffer.h"
#include "kernels/support.h"

namespace kvik::cpu {
namespace {

const std::vector<int64_t> kLengths = {1, 2, 15, 16, 17, 31, 33, 64, 100, 257, 896};

std::vector<float> difficult_row(Numbers& numbers, int64_t n, int kind) {
  std::vector<float> x = numbers.normals(n);
  const size_t middle = x.size() / 2;
  if (kind == 1) std::ranges::fill(x, 0.0f);
  if (kind == 2) std::ranges::fill(x, 1e-40f);
  if (kind == 3) std::ranges::fill(x, -0.0f);
  if (kind == 4) x[middle] = 1e30f;
  if (kind == 5) x[middle] = std::numeric_limits<float>::infinity();
  if (kind == 6) x[middle] = -std::numeric_limits<float>::infinity();
  if (kind == 7) x[middle] = std::nanf("");
  return x;
}
constexpr int kKinds = 8;

// Runs fn(kernels, x, n) -> values over all lengths and kinds of rows and expects one result.
void expect_one_result(const std::function<std::vector<float>(const CpuKernels&, const std::vector<float>&, int64_t)>& fn) {
  Numbers numbers;
  for (int64_t n : kLengths)
    for (int kind = 0; kind < kKinds; ++kind) {
      const std::vector<float> x = difficult_row(numbers, n, kind);
      const std::vector<float> expected = fn(judge(), x, n);
      for (const CpuKernels* kernels : available())
        EXPECT_TRUE(same_bits(fn(*kernels, x, n), expected)) << kernels->name << ", " << n << " values of kind " << kind;
    }
}

TEST(Rows, NormsGiveTheSameBitsOnEveryInstructionSet) {
  Numbers numbers;
  const std::vector<float> weight = numbers.normals(896), bias = numbers.normals(896);
  for (const NormArgs& args : {NormArgs{}, NormArgs{weight.data()}, NormArgs{weight.data(), bias.data(), 1e-6f}}) {
    expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
      std::vector<float> y(x.size());
      k.rms_norm(x.data(), y.data(), n, args);
      return y;
    });
    expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
      std::vector<float> y = x;
      k.layer_norm(y.data(), y.data(), n, args);  // in place
      return y;
    });
  }
}

TEST(Rows, NormsAreRight) {
  Numbers numbers;
  for (int64_t n : kLengths) {
    const std::vector<float> x = numbers.normals(n), w = numbers.normals(n), b = numbers.normals(n);
    double sum = 0, squares = 0, spread = 0;
    for (float v : x) sum += static_cast<double>(v), squares += static_cast<double>(v) * static_cast<double>(v);
    const double count = static_cast<double>(n), mean = sum / count;
    for (float v : x) spread += std::pow(static_cast<double>(v) - mean, 2);
    std::vector<float> rms(x.size()), layer(x.size());
    judge().rms_norm(x.data(), rms.data(), n, {w.data(), b.data(), 1e-5f});
    judge().layer_norm(x.data(), layer.data(), n, {w.data(), b.data(), 1e-5f});
    for (size_t i = 0; i < x.size(); ++i) {
      const double wi = static_cast<double>(w[i]), bi = static_cast<double>(b[i]), xi = static_cast<double>(x[i]);
      EXPECT_NEAR(rms[i], xi / std::sqrt(squares / count + 1e-5) * wi + bi, 3e-6);
      EXPECT_NEAR(layer[i], (xi - mean) / std::sqrt(spread / count + 1e-5) * wi + bi, n == 1 ? 1e-4 : 5e-6);
    }
  }
}

TEST(Rows, SoftmaxGivesTheSameBitsOnEveryInstructionSet) {
  expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
    std::vector<float> y(x.size());
    k.softmax(x.data(), y.data(), n);
    return y;
  });
  expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
    std::vector<float> y = x;
    k.log_softmax(y.data(), y.data(), n);
    return y;
  });
}

TEST(Rows, SoftmaxIsRight) {
  Numbers numbers;
  for (int64_t n : kLengths) {
    const std::vector<float> x = numbers.normals(n, 5.0f);
    std::vector<float> y(x.size()), logs(x.size());
    judge().softmax(x.data(), y.data(), n);
    judge().log_softmax(x.data(), logs.data(), n);
    double total = 0;
    for (float v : x) total += std::exp(static_cast<double>(v));
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], std::exp(static_cast<double>(x[i])) / total, 1e-6);
      EXPECT_NEAR(logs[i], static_cast<double>(x[i]) - std::log(total), 1e-5);
    }
  }
}

TEST(Rows, ReductionsGiveTheSameBitsOnEveryInstructionSet) {
  for (int op = 0; op < kReduceCount; ++op)
    expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
      return std::vector<float>{k.reduce(static_cast<Reduce>(op), x.data(), n), static_cast<float>(k.argmax(x.data(), n))};
    });
}

TEST(Rows, ReductionsAreRight) {
  const std::vector<float> x = {3.0f, -1.0f, 2.0f, 3.0f};
  const auto reduce = [&](Reduce op) { return judge().reduce(op, x.data(), 4); };
  EXPECT_EQ(reduce(Reduce::kSum), 7.0f);
  EXPECT_EQ(reduce(Reduce::kMean), 1.75f);
  EXPECT_EQ(reduce(Reduce::kMax), 3.0f);
  EXPECT_EQ(reduce(Reduce::kMin), -1.0f);
  EXPECT_EQ(reduce(Reduce::kProd), -18.0f);
  EXPECT_EQ(reduce(Reduce::kSumSquare), 23.0f);
  EXPECT_EQ(reduce(Reduce::kSumAbs), 9.0f);
  EXPECT_EQ(reduce(Reduce::kL2), std::sqrt(23.0f));
  EXPECT_EQ(judge().argmax(x.data(), 4), 0);
}

TEST(Rows, BinaryOperationsGiveTheSameBitsOnEveryInstructionSet) {
  Numbers numbers;
  for (int op = 0; op < kBinaryCount; ++op)
    for (bool scalar_a : {false, true})
      for (bool scalar_b : {false, true}) {
        const std::vector<float> other = numbers.normals(896);
        expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
          std::vector<float> y(x.size());
          k.binary(static_cast<Binary>(op), {x.data(), scalar_a}, {other.data(), scalar_b}, y.data(), n);
          return y;
        });
      }
}

TEST(Rows, BinaryOperationsAreRight) {
  const auto apply = [](Binary op, float a, float b) {
    float y = 0;
    judge().binary(op, {&a, true}, {&b, true}, &y, 1);
    return y;
  };
  EXPECT_EQ(apply(Binary::kSub, 5, 3), 2);
  EXPECT_EQ(apply(Binary::kDiv, 5, 2), 2.5f);
  EXPECT_EQ(apply(Binary::kMin, 5, 2), 2);
  EXPECT_EQ(apply(Binary::kMax, 5, 2), 5);
  EXPECT_EQ(apply(Binary::kMod, -1, 3), 2);
  EXPECT_TRUE(std::isnan(apply(Binary::kMax, 5, std::nanf(""))));
  EXPECT_TRUE(std::isnan(apply(Binary::kMin, std::nanf(""), 5)));
  for (float p : {-2.0f, -1.0f, 0.0f, 0.5f, 1.0f, 2.0f, 3.0f, 4.5f}) EXPECT_FLOAT_EQ(apply(Binary::kPow, 1.7f, p), std::pow(1.7f, p));
  EXPECT_EQ(apply(Binary::kLess, 1, 2), 1);
  EXPECT_EQ(apply(Binary::kLessEqual, 2, 2), 1);
  EXPECT_EQ(apply(Binary::kGreater, 1, 2), 0);
  EXPECT_EQ(apply(Binary::kGreaterEqual, 2, 2), 1);
  EXPECT_EQ(apply(Binary::kEqual, 2, 2), 1);
  EXPECT_EQ(apply(Binary::kNotEqual, 2, 2), 0);
  EXPECT_EQ(apply(Binary::kNotEqual, 2, std::nanf("")), 1);
  EXPECT_EQ(apply(Binary::kAnd, 2, 0), 0);
  EXPECT_EQ(apply(Binary::kOr, 2, 0), 1);
  EXPECT_EQ(apply(Binary::kXor, 2, 3), 0);
}

TEST(Rows, QuantizingAGatedRowIsGatingAndThenQuantizing) {
  Numbers numbers;
  for (const int64_t k : {1, 100, 128, 896, 1000}) {
    const std::vector<float> a = numbers.normals(k, 3.0f), b = numbers.normals(k);
    AlignedBuffer together(quantized_bytes(2, k)), apart(quantized_bytes(2, k));
    for (const CpuKernels* kernels : available())
      for (const Unary op : {Unary::kSilu, Unary::kGeluTanh, Unary::kAbs})
        for (const int64_t part : {16, 32, 64, 128}) {
          const QuantizedRows one = quantized_rows(together.data(), 2, k, part), two = quantized_rows(apart.data(), 2, k, part);
          std::vector<float> gated(a.size());
          kernels->gate(op, a.data(), b.data(), gated.data(), k);
          kernels->quantize_row(gated.data(), two, 1);
          kernels->quantize_gated_row(op, a.data(), b.data(), one, 1);
          const auto same = [](const auto* x, const auto* y, int64_t n) { return std::equal(x + n, x + 2 * n, y + n); };
          EXPECT_TRUE(same(one.q, two.q, one.n_steps * 32)) << kernels->name << ' ' << k;
          EXPECT_TRUE(same(one.scale, two.scale, one.n_blocks)) << kernels->name << ' ' << k;
          EXPECT_TRUE(same(one.sum, two.sum, one.n_parts)) << kernels->name << ' ' << k;
        }
  }
}

TEST(Rows, GateWhereAndClipGiveTheSameBitsOnEveryInstructionSet) {
  Numbers numbers;
  const std::vector<float> a = numbers.normals(896), b = numbers.normals(896);
  for (int op = 0; op < kUnaryCount; ++op)
    expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
      std::vector<float> y = b, plain(x.size());
      y.resize(x.size());
      k.gate(static_cast<Unary>(op), x.data(), y.data(), y.data(), n);
      k.unary(static_cast<Unary>(op), x.data(), plain.data(), n);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(same_bits(y[i], plain[i] * b[i]));  // the gate is the function times b
      return y;
    });
  expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
    std::vector<float> y(x.size());
    k.where({x.data()}, {a.data()}, {b.data(), true}, y.data(), n);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], x[i] != 0.0f ? a[i] : b[0]);
    return y;
  });
  expect_one_result([&](const CpuKernels& k, const std::vector<float>& x, int64_t n) {
    std::vector<float> y(x.size());
    k.clip(x.data(), -0.5f, 0.25f, y.data(), n);
    return y;
  });
}

TEST(Rows, RotaryTurnsPairsAndLeavesTheRest) {
  Numbers numbers;
  for (bool interleaved : {false, true})
    for (int64_t n_pairs : {1, 5, 16, 20, 32}) {
      const int64_t heads = 3, head_dim = 2 * n_pairs + 7;
      std::vector<float> x = numbers.normals(heads * head_dim), c, s;
      for (int64_t i = 0; i < n_pairs; ++i)
        c.push_back(std::cos(0.3f * static_cast<float>(i))), s.push_back(std::sin(0.3f * static_cast<float>(i)));
      const RotaryArgs args{c.data(), s.data(), n_pairs, heads, head_dim, interleaved};
      std::vector<float> expected = x;
      judge().rotary(expected.data(), args);
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < head_dim; ++i) {
          const auto at = [&](int64_t j) { return static_cast<double>(x[static_cast<size_t>(h * head_dim + j)]); };
          const float got = expected[static_cast<size_t>(h * head_dim + i)];
          if (i >= 2 * n_pairs) {
            EXPECT_EQ(static_cast<double>(got), at(i));
            continue;
          }
          const bool first = interleaved ? i % 2 == 0 : i < n_pairs;
          const int64_t pair = interleaved ? i / 2 : i % n_pairs;
          const int64_t other = interleaved ? (first ? i + 1 : i - 1) : (first ? i + n_pairs : i - n_pairs);
          const double cosine = static_cast<double>(c[static_cast<size_t>(pair)]), sine = static_cast<double>(s[static_cast<size_t>(pair)]);
          EXPECT_NEAR(got, first ? at(i) * cosine - at(other) * sine : at(i) * cosine + at(other) * sine, 1e-6);
        }
      for (const CpuKernels* kernels : available()) {
        std::vector<float> y = x;
        kernels->rotary(y.data(), args);
        EXPECT_TRUE(same_bits(y, expected)) << kernels->name;
      }
    }
}

TEST(Rows, SmallFloatsConvertAlikeEverywhere) {
  std::vector<Half> halves(65536);
  std::vector<BFloat16> brains(65536);
  for (uint32_t i = 0; i < 65536; ++i) halves[i].bits = brains[i].bits = static_cast<uint16_t>(i);
  Numbers numbers;
  std::vector<float> wide = numbers.normals(1000, 1000.0f);
  for (float v : {65519.0f, 65520.0f, 1e-8f, 6e-8f, 2.98e-8f, std::numeric_limits<float>::infinity(),
                  -std::numeric_limits<float>::infinity(), std::nanf(""), 0.0f, -0.0f, 1e30f})
    wide.push_back(v);
  for (const CpuKernels* kernels : available()) {
    std::vector<float> y(65536);
    kernels->f16_to_f32(halves.data(), y.data(), 65536);
    for (uint32_t i = 0; i < 65536; ++i) ASSERT_TRUE(same_bits(y[i], static_cast<float>(halves[i])));
    kernels->bf16_to_f32(brains.data(), y.data(), 65533);
    for (uint32_t i = 0; i < 65533; ++i) ASSERT_TRUE(same_bits(y[i], static_cast<float>(brains[i])));
    std::vector<Half> back(wide.size());
    kernels->f32_to_f16(wide.data(), back.data(), static_cast<int64_t>(wide.size()));
    for (size_t i = 0; i < wide.size(); ++i)
      ASSERT_TRUE(same_bits(static_cast<float>(back[i]), static_cast<float>(Half(wide[i])))) << wide[i];
  }
}

}  // namespace
}  // namespace kvik::cpu
