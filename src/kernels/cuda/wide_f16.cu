#include "kernels/cuda/wide.cuh"

KVIK_WIDE(wide_f16_16, kF16, 16, 1)
KVIK_WIDE(wide_f16_32, kF16, 32, 1)
KVIK_WIDE(wide_f16_64, kF16, 64, 1)
KVIK_WIDE(wide_f16_128, kF16, 128, 2)
