#include "kernels/cpu/neon/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/body/matmul_blocks.h"
#include "kernels/cpu/body/matmul_blocks_f32.h"
