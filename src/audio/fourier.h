#pragma once

#include <complex>
#include <span>
#include <vector>

namespace kvik::audio {

// Mixed-radix discrete Fourier transform of any length; fast if its prime factors are small. Immutable; any thread.
class Fourier {
 public:
  explicit Fourier(int length);

  int length() const { return static_cast<int>(roots_.size()); }
  // `values` and `result` have length() elements and must not overlap.
  void transform(std::span<const double> values, std::span<std::complex<double>> result) const;

 private:
  struct Part;
  void transform(std::span<const double> values, const Part& part, std::span<std::complex<double>> result) const;

  std::vector<std::complex<double>> roots_;  // exp(-2 pi i k / length)
};

}  // namespace kvik::audio
