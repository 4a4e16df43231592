#include "kernels/cpu/neon/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/body/convert.h"
#include "kernels/cpu/body/matmul_bytes.h"
#include "kernels/cpu/body/matmul_float.h"
