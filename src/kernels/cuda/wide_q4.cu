#include "kernels/cuda/wide.cuh"

KVIK_WIDE(wide_q4_16, kQ4, 16, 1)
KVIK_WIDE(wide_q4_32, kQ4, 32, 1)
KVIK_WIDE(wide_q4_64, kQ4, 64, 1)
