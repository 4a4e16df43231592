#include "kernels/cuda/matrix.cuh"

KVIK_MATRIX(matrix_f32_1, kF32, 1, 4)
KVIK_MATRIX(matrix_f32_4, kF32, 4, 2)
