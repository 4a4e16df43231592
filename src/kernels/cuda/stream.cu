#include "kernels/cuda/stream.cuh"

KVIK_STREAM(stream_f16, kF16)
KVIK_STREAM(stream_q8, kQ8)
KVIK_STREAM(stream_q4, kQ4)
