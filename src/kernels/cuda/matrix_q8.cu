#include "kernels/cuda/matrix.cuh"

KVIK_MATRIX(matrix_q8_1, kQ8, 1, 4)
KVIK_MATRIX(matrix_q8_2, kQ8, 2, 4)
KVIK_MATRIX(matrix_q8_4, kQ8, 4, 3)
KVIK_MATRIX(matrix_q8_8, kQ8, 8, 1)
KVIK_MATRIX(matrix_q8_zero_1, kQ8Zero, 1, 4)
KVIK_MATRIX(matrix_q8_zero_4, kQ8Zero, 4, 2)
