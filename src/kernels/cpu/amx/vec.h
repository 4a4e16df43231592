#pragma once

#include "kernels/cpu/avx512/vec.h"

// AVX-512 with VNNI and AMX: the vector is that of AVX-512.
#undef KVIK_ISA
#define KVIK_ISA amx

namespace kvik::cpu::amx {

using namespace avx512;

}  // namespace kvik::cpu::amx
