#include <functional>
#include <limits>

#include "kernels/support.h"

namespace kvik::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> apply(const CpuKernels& kernels, Unary op, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  kernels.unary(op, x.data(), y.data(), static_cast<int64_t>(x.size()));
  return y;
}

// Every 10007th float there is: all signs and exponents, denormals, infinities, NaNs.
std::vector<float> all_kinds_of_floats() {
  std::vector<float> x = {0.0f,    -0.0f,   1.0f,     -1.0f,  kInfinity, -kInfinity, std::nanf(""), 1e-45f,
                          -1e-45f, 3.4e38f, -3.4e38f, 88.72f, 88.73f,    -87.0f,     -87.1f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 40009) {
    const auto word = static_cast<uint32_t>(bits);
    float f;
    std::memcpy(&f, &word, sizeof f);
    x.push_back(f);
  }
  return x;
}

std::vector<float> range(float low, float high, int n = 40001) {
  std::vector<float> x;
  for (int i = 0; i < n; ++i) x.push_back(low + (high - low) * static_cast<float>(i) / static_cast<float>(n - 1));
  return x;
}

double ulp_of(double value) {
  const auto f = static_cast<float>(std::fabs(value));
  return static_cast<double>(std::nextafter(f, kInfinity)) - static_cast<double>(f);
}

// The largest error in ulp, where `floor` is what an absolute error may always be.
double worst_ulp(Unary op, const std::vector<float>& x, const std::function<double(double)>& exact, double floor = 0) {
  const std::vector<float> y = apply(judge(), op, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = exact(static_cast<double>(x[i])), error = std::fabs(static_cast<double>(y[i]) - expected);
    if (error > floor) worst = std::max(worst, error / ulp_of(expected));
  }
  return worst;
}

TEST(Math, EveryFunctionGivesTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> x = all_kinds_of_floats();
  for (int op = 0; op < kUnaryCount; ++op) {
    const std::vector<float> expected = apply(judge(), static_cast<Unary>(op), x);
    for (const CpuKernels* kernels : available())
      EXPECT_TRUE(same_bits(apply(*kernels, static_cast<Unary>(op), x), expected)) << op << ' ' << kernels->name;
  }
}

TEST(Math, AValueDoesNotDependOnItsNeighbors) {
  std::vector<float> x = all_kinds_of_floats();
  x.resize(3001);
  for (int op = 0; op < kUnaryCount; ++op)
    for (const CpuKernels* kernels : available()) {
      const std::vector<float> together = apply(*kernels, static_cast<Unary>(op), x);
      for (size_t i = 0; i < x.size(); i += 13)
        ASSERT_TRUE(same_bits(apply(*kernels, static_cast<Unary>(op), {x[i]})[0], together[i])) << op << ' ' << x[i];
    }
}

TEST(Math, ErrorsAreThoseStated) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  EXPECT_LT(worst_ulp(Unary::kExp, range(-87, 88.7f), [](double v) { return std::exp(v); }), 2);
  EXPECT_LT(worst_ulp(Unary::kLog, range(1e-6f, 10), [](double v) { return std::log(v); }), 2);
  EXPECT_LT(worst_ulp(Unary::kLog, {1e-45f, 1e-40f, 1e-38f, 1e-20f, 1e20f, 3.4e38f}, [](double v) { return std::log(v); }), 1);
  EXPECT_LT(worst_ulp(Unary::kTanh, range(-10, 10), [](double v) { return std::tanh(v); }), 2);
  EXPECT_LT(worst_ulp(Unary::kTanh, range(-1e-3f, 1e-3f), [](double v) { return std::tanh(v); }), 2);
  EXPECT_LT(worst_ulp(Unary::kErf, range(-5, 5), [](double v) { return std::erf(v); }), 2);
  EXPECT_LT(worst_ulp(Unary::kErf, range(-1e-3f, 1e-3f), [](double v) { return std::erf(v); }), 2);
  EXPECT_LT(worst_ulp(
                Unary::kSin, range(-30, 30), [](double v) { return std::sin(v); }, 1e-10),
            2);
  EXPECT_LT(worst_ulp(
                Unary::kCos, range(-30, 30), [](double v) { return std::cos(v); }, 1e-10),
            2);
  EXPECT_LT(worst_ulp(
                Unary::kSin, range(-131072, 131072), [](double v) { return std::sin(v); }, 1e-10),
            2);
  EXPECT_LT(worst_ulp(Unary::kCos, range(1e5f, 1e9f), [](double v) { return std::cos(v); }), 1);
  EXPECT_LT(worst_ulp(Unary::kSigmoid, range(-80, 80), sigmoid), 4);
  EXPECT_LT(worst_ulp(Unary::kSilu, range(-80, 80), [&](double v) { return v * sigmoid(v); }), 4);
  EXPECT_LT(worst_ulp(Unary::kSoftplus, range(-80, 80), [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))); }),
            4);
  const auto gelu = [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); };
  const auto tanh_gelu = [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); };
  EXPECT_LT(worst_ulp(Unary::kGeluErf, range(-10, 10), gelu, 5e-7), 4);
  EXPECT_LT(worst_ulp(Unary::kGeluTanh, range(-10, 10), tanh_gelu, 5e-7), 4);
  EXPECT_LT(worst_ulp(
                Unary::kGeluQuick, range(-10, 10), [&](double v) { return v * sigmoid(1.702 * v); }, 1e-6),
            8);
}

TEST(Math, TheEdgesAreWhereTheyShouldBe) {
  const auto one = [](Unary op, float x) { return apply(judge(), op, {x})[0]; };
  EXPECT_EQ(one(Unary::kExp, 0.0f), 1.0f);
  EXPECT_EQ(one(Unary::kExp, -kInfinity), 0.0f);
  EXPECT_EQ(one(Unary::kExp, 89.0f), kInfinity);
  EXPECT_EQ(one(Unary::kLog, 1.0f), 0.0f);
  EXPECT_EQ(one(Unary::kLog, 0.0f), -kInfinity);
  EXPECT_EQ(one(Unary::kLog, kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(one(Unary::kLog, -1.0f)));
  EXPECT_EQ(one(Unary::kTanh, 100.0f), 1.0f);
  EXPECT_EQ(one(Unary::kErf, -100.0f), -1.0f);
  EXPECT_EQ(one(Unary::kSigmoid, -200.0f), 0.0f);
  EXPECT_EQ(one(Unary::kSoftplus, 100.0f), 100.0f);
  EXPECT_TRUE(std::isnan(one(Unary::kSin, kInfinity)));
  EXPECT_EQ(one(Unary::kRound, 2.5f), 2.0f);
  EXPECT_EQ(one(Unary::kSign, -3.0f), -1.0f);
  EXPECT_EQ(one(Unary::kNot, 0.0f), 1.0f);
  for (int op = 0; op < kUnaryCount; ++op) {
    if (static_cast<Unary>(op) == Unary::kNot) continue;
    EXPECT_TRUE(std::isnan(one(static_cast<Unary>(op), std::nanf("")))) << op;
  }
}

}  // namespace
}  // namespace kvik::cpu
