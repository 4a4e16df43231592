#pragma once

#include "kernels/cpu/avx512/vec.h"

// AVX-512 with VNNI whose products prefetch the weights of few rows. Most processors prefetch one stream of weights too slowly by
// themselves: 4 KB ahead, one row of 4-bit weights was read 1.6 times as fast (16 cores of a Sapphire Rapids), and four rows of 8-bit
// weights in half the time (2 cores of Zen 5).
#undef KVIK_ISA
#define KVIK_ISA avx512_prefetch

namespace kvik::cpu::avx512_prefetch {

using namespace avx512;

constexpr int kPrefetchBytes = 4096;

}  // namespace kvik::cpu::avx512_prefetch
