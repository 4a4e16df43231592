#include "kernels/cuda/quick.cuh"

KVIK_QUICK(quick_q4, kQ4)
