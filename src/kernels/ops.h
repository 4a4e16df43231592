#pragma once

#include <cstdint>

// The functions that row kernels compute, on every device; a plan names them. No inline functions here: files of every instruction set
// include this.
namespace kvik {

enum class Unary : uint8_t {
  kNeg,
  kAbs,
  kSqrt,
  kRsqrt,  // 1 / sqrt(x), both rounded
  kReciprocal,
  kExp,
  kLog,
  kTanh,
  kErf,
  kSigmoid,
  kSilu,
  kGeluErf,
  kGeluTanh,
  kGeluQuick,  // x * sigmoid(1.702 x)
  kRelu,
  kSoftplus,
  kSin,
  kCos,
  kFloor,
  kCeil,
  kRound,  // to even
  kSign,
  kSquare,
  kNot,       // 1 where x is 0, else 0
  kIdentity,  // a copy
};
inline constexpr int kUnaryCount = static_cast<int>(Unary::kIdentity) + 1;

// Comparisons and logic give 1 and 0; logic takes everything but 0 for true.
enum class Binary : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPow,
  kMod,  // a - b * floor(a / b)
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  kXor,
};
inline constexpr int kBinaryCount = static_cast<int>(Binary::kXor) + 1;

enum class Reduce : uint8_t { kSum, kMean, kMax, kMin, kProd, kSumSquare, kSumAbs, kL2 };
inline constexpr int kReduceCount = static_cast<int>(Reduce::kL2) + 1;

// Rounding to codes and back, as a QuantizeLinear and its DequantizeLinear do it: clamp(round(x / step), low, high) * unit, to even.
struct Rounding {
  float step = 1.0f;
  float low = 0.0f, high = 0.0f;  // codes, without the zero point
  float unit = 1.0f;              // of one code
};
bool operator==(const Rounding& a, const Rounding& b);
float rounded(float x, const Rounding& rounding);

}  // namespace kvik
