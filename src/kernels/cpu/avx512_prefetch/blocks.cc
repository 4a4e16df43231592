#include "kernels/cpu/avx512_prefetch/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/body/matmul_blocks.h"
