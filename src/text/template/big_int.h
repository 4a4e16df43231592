#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::text::jinja {

// An integer of up to kMaxBits bits; operations beyond that throw Error(kTooLarge). Division rounds down, as in Python.
class BigInt {
 public:
  static constexpr size_t kMaxBits = 65536;

  BigInt() = default;
  BigInt(int64_t value);  // NOLINT: implicit, like other numeric conversions
  // Digits of `base` (2 to 36) with an optional sign and nothing else; nullopt otherwise.
  static std::optional<BigInt> parse(std::string_view digits, int base = 10);
  // `value` must be finite; the fraction is dropped.
  static BigInt from_double(double value);

  bool is_zero() const { return limbs_.empty(); }
  bool is_negative() const { return negative_; }
  size_t bits() const;
  std::optional<int64_t> to_int64() const;
  double to_double() const;  // infinite if out of range
  std::string to_string(int base = 10) const;

  BigInt operator-() const;
  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b);
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  friend std::strong_ordering operator<=>(const BigInt& a, const BigInt& b);
  friend bool operator==(const BigInt& a, const BigInt& b) { return a.negative_ == b.negative_ && a.limbs_ == b.limbs_; }

  struct Division;
  // `divisor` must not be zero.
  Division divide(const BigInt& divisor) const;
  BigInt power(uint64_t exponent) const;

 private:
  using Limbs = std::vector<uint32_t>;

  BigInt(Limbs limbs, bool negative);
  static std::strong_ordering compare_magnitudes(const Limbs& a, const Limbs& b);
  static Limbs add_magnitudes(const Limbs& a, const Limbs& b);
  static Limbs subtract_magnitudes(const Limbs& a, const Limbs& b);  // a >= b
  static void divide_magnitudes(const Limbs& a, const Limbs& b, Limbs& quotient, Limbs& remainder);
  static uint32_t divide_by_small(Limbs& limbs, uint32_t divisor);  // returns the remainder
  static void multiply_add_small(Limbs& limbs, uint32_t factor, uint32_t addend);

  Limbs limbs_;  // least significant first, no leading zero
  bool negative_ = false;
};

struct BigInt::Division {
  BigInt quotient;
  BigInt remainder;  // has the sign of the divisor
};

}  // namespace kvik::text::jinja
