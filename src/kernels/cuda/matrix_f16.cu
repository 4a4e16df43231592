#include "kernels/cuda/matrix.cuh"

KVIK_MATRIX(matrix_f16_1, kF16, 1, 4)
KVIK_MATRIX(matrix_f16_2, kF16, 2, 4)
KVIK_MATRIX(matrix_f16_4, kF16, 4, 3)
KVIK_MATRIX(matrix_f16_8, kF16, 8, 1)
