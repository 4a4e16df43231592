#pragma once

#include "kernels/cpu/kernels.h"

namespace kvik::cpu {

// The kernels of AMX with tile registers in memory, so that their code is tested on processors without AMX. Null if this machine or build
// has no AVX-512.
const CpuKernels* emulated_amx();

}  // namespace kvik::cpu
