#include "kernels/cuda/wide.cuh"

KVIK_WIDE(wide_q8_16, kQ8, 16, 1)
KVIK_WIDE(wide_q8_32, kQ8, 32, 1)
KVIK_WIDE(wide_q8_64, kQ8, 64, 1)
