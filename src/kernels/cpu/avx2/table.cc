#include "kernels/cpu/avx2/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/body/table.h"
