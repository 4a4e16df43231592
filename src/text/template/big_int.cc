#include "text/template/big_int.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "text/template/fault.h"

namespace kvik::text::jinja {
namespace {

constexpr int kLimbBits = 32;
constexpr uint64_t kLimbBase = uint64_t{1} << kLimbBits;

void drop_leading_zeros(std::vector<uint32_t>& limbs) {
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

void check_bits(size_t bits) {
  if (bits > BigInt::kMaxBits + kLimbBits)
    throw Fault(Code::kTooLarge, fmt::format("an integer would have about {} bits; the limit is {}", bits, BigInt::kMaxBits));
}

}  // namespace

BigInt::BigInt(int64_t value) : negative_(value < 0) {
  uint64_t magnitude = negative_ ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  for (; magnitude != 0; magnitude >>= kLimbBits) limbs_.push_back(static_cast<uint32_t>(magnitude));
}

BigInt::BigInt(Limbs limbs, bool negative) : limbs_(std::move(limbs)), negative_(negative) {
  drop_leading_zeros(limbs_);
  if (limbs_.empty()) negative_ = false;
  check_bits(bits());
}

std::optional<BigInt> BigInt::parse(std::string_view digits, int base) {
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  if (digits.empty()) return std::nullopt;
  check_bits(digits.size());  // a digit is at least one bit: bounds the quadratic loop below
  Limbs limbs;
  for (char c : digits) {
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    multiply_add_small(limbs, static_cast<uint32_t>(base), static_cast<uint32_t>(digit));
  }
  return BigInt(std::move(limbs), negative);
}

BigInt BigInt::from_double(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::trunc(value), &exponent);
  if (exponent <= 63) return BigInt(static_cast<int64_t>(std::trunc(value)));
  BigInt mantissa(static_cast<int64_t>(std::ldexp(fraction, 63)));
  return mantissa * BigInt(2).power(static_cast<uint64_t>(exponent - 63));
}

size_t BigInt::bits() const {
  if (limbs_.empty()) return 0;
  return limbs_.size() * kLimbBits - static_cast<size_t>(std::countl_zero(limbs_.back()));
}

std::optional<int64_t> BigInt::to_int64() const {
  if (limbs_.size() > 2) return std::nullopt;
  uint64_t magnitude = 0;
  for (size_t i = limbs_.size(); i-- > 0;) magnitude = (magnitude << kLimbBits) | limbs_[i];
  const uint64_t limit = uint64_t{1} << 63;
  if (magnitude > limit || (magnitude == limit && !negative_)) return std::nullopt;
  return static_cast<int64_t>(negative_ ? uint64_t{0} - magnitude : magnitude);
}

double BigInt::to_double() const {
  const size_t n = bits();
  if (n > 1024) return negative_ ? -HUGE_VAL : HUGE_VAL;
  // The top 64 bits, rounded to odd, so that the conversion to double rounds correctly.
  uint64_t top = 0;
  const size_t shift = n > 64 ? n - 64 : 0;
  bool lost = false;
  for (size_t bit = 0; bit < shift && !lost; ++bit) lost = (limbs_[bit / kLimbBits] >> (bit % kLimbBits)) & 1;
  for (size_t bit = n; bit-- > shift;) top = (top << 1) | ((limbs_[bit / kLimbBits] >> (bit % kLimbBits)) & 1);
  if (lost) top |= 1;
  const double value = std::ldexp(static_cast<double>(top), static_cast<int>(shift));
  return negative_ ? -value : value;
}

std::string BigInt::to_string(int base) const {
  if (limbs_.empty()) return "0";
  uint32_t chunk = static_cast<uint32_t>(base);
  int chunk_digits = 1;
  while (uint64_t{chunk} * static_cast<uint64_t>(base) < kLimbBase) {
    chunk *= static_cast<uint32_t>(base);
    ++chunk_digits;
  }
  std::string text;
  Limbs rest = limbs_;
  while (!rest.empty()) {
    uint32_t part = divide_by_small(rest, chunk);
    for (int i = 0; i < chunk_digits && (part != 0 || !rest.empty()); ++i) {
      text += "0123456789abcdefghijklmnopqrstuvwxyz"[part % static_cast<uint32_t>(base)];
      part /= static_cast<uint32_t>(base);
    }
  }
  if (negative_) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

BigInt BigInt::operator-() const { return BigInt(limbs_, !negative_); }

BigInt operator+(const BigInt& a, const BigInt& b) {
  if (a.negative_ == b.negative_) return BigInt(BigInt::add_magnitudes(a.limbs_, b.limbs_), a.negative_);
  if (std::is_gteq(BigInt::compare_magnitudes(a.limbs_, b.limbs_)))
    return BigInt(BigInt::subtract_magnitudes(a.limbs_, b.limbs_), a.negative_);
  return BigInt(BigInt::subtract_magnitudes(b.limbs_, a.limbs_), b.negative_);
}

BigInt operator-(const BigInt& a, const BigInt& b) { return a + (-b); }

BigInt operator*(const BigInt& a, const BigInt& b) {
  check_bits(a.bits() + b.bits());
  BigInt::Limbs product(a.limbs_.size() + b.limbs_.size(), 0);
  for (size_t i = 0; i < a.limbs_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.limbs_.size(); ++j) {
      const uint64_t sum = uint64_t{a.limbs_[i]} * b.limbs_[j] + product[i + j] + carry;
      product[i + j] = static_cast<uint32_t>(sum);
      carry = sum >> kLimbBits;
    }
    product[i + b.limbs_.size()] = static_cast<uint32_t>(carry);
  }
  return BigInt(std::move(product), a.negative_ != b.negative_);
}

std::strong_ordering operator<=>(const BigInt& a, const BigInt& b) {
  if (a.negative_ != b.negative_) return a.negative_ ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.negative_ ? BigInt::compare_magnitudes(b.limbs_, a.limbs_) : BigInt::compare_magnitudes(a.limbs_, b.limbs_);
}

BigInt::Division BigInt::divide(const BigInt& divisor) const {
  Limbs quotient, remainder;
  divide_magnitudes(limbs_, divisor.limbs_, quotient, remainder);
  Division result{BigInt(std::move(quotient), negative_ != divisor.negative_), BigInt(std::move(remainder), negative_)};
  if (!result.remainder.is_zero() && negative_ != divisor.negative_) {  // towards minus infinity
    result.quotient = result.quotient - BigInt(1);
    result.remainder = result.remainder + divisor;
  }
  return result;
}

BigInt BigInt::power(uint64_t exponent) const {
  if (bits() > 1) {
    if (exponent > kMaxBits) check_bits(kMaxBits * 2);
    check_bits((bits() - 1) * exponent);
  }
  BigInt result(1), square = *this;
  if (bits() <= 1) exponent = exponent == 0 ? 0 : 2 - exponent % 2;  // 0, 1 and -1 do not grow
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = result * square;
    if (exponent > 1) square = square * square;
  }
  return result;
}

std::strong_ordering BigInt::compare_magnitudes(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  for (size_t i = a.size(); i-- > 0;)
    if (a[i] != b[i]) return a[i] <=> b[i];
  return std::strong_ordering::equal;
}

BigInt::Limbs BigInt::add_magnitudes(const Limbs& a, const Limbs& b) {
  Limbs sum(std::max(a.size(), b.size()) + 1, 0);
  uint64_t carry = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    carry += (i < a.size() ? a[i] : 0);
    carry += (i < b.size() ? b[i] : 0);
    sum[i] = static_cast<uint32_t>(carry);
    carry >>= kLimbBits;
  }
  return sum;
}

BigInt::Limbs BigInt::subtract_magnitudes(const Limbs& a, const Limbs& b) {
  Limbs difference(a.size(), 0);
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t part = static_cast<int64_t>(a[i]) - borrow - (i < b.size() ? static_cast<int64_t>(b[i]) : 0);
    borrow = part < 0 ? 1 : 0;
    if (part < 0) part += static_cast<int64_t>(kLimbBase);
    difference[i] = static_cast<uint32_t>(part);
  }
  return difference;
}

uint32_t BigInt::divide_by_small(Limbs& limbs, uint32_t divisor) {
  uint64_t remainder = 0;
  for (size_t i = limbs.size(); i-- > 0;) {
    const uint64_t part = (remainder << kLimbBits) | limbs[i];
    limbs[i] = static_cast<uint32_t>(part / divisor);
    remainder = part % divisor;
  }
  drop_leading_zeros(limbs);
  return static_cast<uint32_t>(remainder);
}

void BigInt::multiply_add_small(Limbs& limbs, uint32_t factor, uint32_t addend) {
  uint64_t carry = addend;
  for (uint32_t& limb : limbs) {
    carry += uint64_t{limb} * factor;
    limb = static_cast<uint32_t>(carry);
    carry >>= kLimbBits;
  }
  if (carry != 0) limbs.push_back(static_cast<uint32_t>(carry));
}

// Bit by bit: such divisions are rare and short.
void BigInt::divide_magnitudes(const Limbs& a, const Limbs& b, Limbs& quotient, Limbs& remainder) {
  if (b.size() == 1) {
    quotient = a;
    const uint32_t rest = divide_by_small(quotient, b[0]);
    if (rest != 0) remainder.push_back(rest);
    return;
  }
  quotient.assign(a.size(), 0);
  for (size_t bit = a.size() * kLimbBits; bit-- > 0;) {
    uint32_t carry = (a[bit / kLimbBits] >> (bit % kLimbBits)) & 1;
    for (uint32_t& limb : remainder) {
      const uint32_t next = limb >> (kLimbBits - 1);
      limb = (limb << 1) | carry;
      carry = next;
    }
    if (carry != 0) remainder.push_back(carry);
    if (std::is_lt(compare_magnitudes(remainder, b))) continue;
    remainder = subtract_magnitudes(remainder, b);
    drop_leading_zeros(remainder);
    quotient[bit / kLimbBits] |= uint32_t{1} << (bit % kLimbBits);
  }
}

}  // namespace kvik::text::jinja
