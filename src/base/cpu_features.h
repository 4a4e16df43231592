#pragma once

#include <string>

namespace kvik {

// What this processor can run and the operating system lets us use (AVX and AMX registers must be enabled there too).
struct CpuFeatures {
  bool avx2 = false;    // with FMA and F16C, as every processor with AVX2 that matters has them
  bool avx512 = false;  // F, BW, VL and DQ
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx_tile = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;
  bool neon = false;
};

// Asks the processor; cheap enough to call at every start, not in a loop.
CpuFeatures detect_cpu_features();

// "avx2 avx512 avx512_vnni", for logs; "none" when there is none.
std::string describe(const CpuFeatures& features);

// Cores this process may run on, at least 1.
int usable_cores();

}  // namespace kvik
