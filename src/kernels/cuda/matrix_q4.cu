#include "kernels/cuda/matrix.cuh"

KVIK_MATRIX(matrix_q4_1, kQ4, 1, 4)
KVIK_MATRIX(matrix_q4_2, kQ4, 2, 4)
KVIK_MATRIX(matrix_q4_4, kQ4, 4, 3)
KVIK_MATRIX(matrix_q4_8, kQ4, 8, 1)
KVIK_MATRIX(matrix_q4_zero_1, kQ4Zero, 1, 4)
KVIK_MATRIX(matrix_q4_zero_4, kQ4Zero, 4, 2)
