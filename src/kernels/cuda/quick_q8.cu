#include "kernels/cuda/quick.cuh"

KVIK_QUICK(quick_q8, kQ8)
