#include "audio/fourier.h"

#include <array>
#include <numbers>

namespace kvik::audio {
namespace {

size_t smallest_factor(size_t n) {
  for (size_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) return p;
  }
  return n;
}

// The product of std::complex checks for infinities, which costs more than the product itself.
std::complex<double> product(const std::complex<double>& a, const std::complex<double>& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace

// Every stride-th value, starting at `first`.
struct Fourier::Part {
  size_t first = 0;
  size_t stride = 1;
};

Fourier::Fourier(int length) {
  for (int k = 0; k < length; ++k) roots_.push_back(std::polar(1.0, -2 * std::numbers::pi * k / length));
}

void Fourier::transform(std::span<const double> values, std::span<std::complex<double>> result) const { transform(values, {}, result); }

// `result` holds the transforms of p interleaved parts one after another; each output sums p of their elements times a root of unity.
void Fourier::transform(std::span<const double> values, const Part& part, std::span<std::complex<double>> result) const {
  const size_t n = result.size();
  if (n == 1) {
    result[0] = values[part.first];
    return;
  }
  const size_t p = smallest_factor(n), m = n / p;
  for (size_t r = 0; r < p; ++r) transform(values, {part.first + r * part.stride, part.stride * p}, result.subspan(r * m, m));
  std::vector<std::complex<double>> large(p > 8 ? p : 0);
  std::array<std::complex<double>, 8> small;
  const std::span<std::complex<double>> terms = p > 8 ? std::span(large) : std::span(small).first(p);
  for (size_t k = 0; k < m; ++k) {
    for (size_t r = 0; r < p; ++r) terms[r] = result[r * m + k];
    for (size_t q = 0; q < p; ++q) {
      std::complex<double> sum = terms[0];
      for (size_t r = 1; r < p; ++r) sum += product(terms[r], roots_[(r * (k + q * m) % n) * part.stride]);
      result[q * m + k] = sum;
    }
  }
}

}  // namespace kvik::audio
