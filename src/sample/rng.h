#pragma once

#include <array>
#include <cstdint>

namespace kvik::sample {

// The Philox 4x32-10 generator (Salmon et al., 2011): ten rounds of multiplications over a counter and a key, no state.
// Every compiler and machine gives the same numbers.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The n-th number of a stream is a function of (seed, stream, n) alone: streams of one seed are independent, and seek() makes a
// rewound sequence draw what it drew before. A value: copy it to fork it. Not for several threads at once.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint64_t bits();   // 64 independent random bits
  double uniform();  // a multiple of 2^-53 in [0, 1)

  uint64_t position() const { return position_; }  // how many numbers were drawn
  void seek(uint64_t position) { position_ = position; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_ = 0;
};

}  // namespace kvik::sample
