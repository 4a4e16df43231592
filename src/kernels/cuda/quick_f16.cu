#include "kernels/cuda/quick.cuh"

KVIK_QUICK(quick_f16, kF16)
