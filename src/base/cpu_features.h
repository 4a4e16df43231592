#pragma once

#include <string>

namespace kvik {

// Instruction sets that the processor has and the operating system enables (AVX and AMX registers need both).
struct CpuFeatures {
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, VL and DQ
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx_tile = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;
  bool neon = false;
  bool reads_ahead = false;  // prefetches one ascending stream at the full bandwidth of memory by itself (AMD Zen 4)
};

// Queries the processor; cheap enough at startup, not in a loop.
CpuFeatures detect_cpu_features();

// Asks the operating system to save tile registers, for all threads of the process. False: AMX instructions would fault.
bool enable_amx();

// "avx2 avx512 avx512_vnni", for logs; "none" if there are none.
std::string describe(const CpuFeatures& features);

// Cores this process may run on, at least 1.
int usable_cores();

}  // namespace kvik
