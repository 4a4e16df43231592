#include "kernels/cpu/neon/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/body/table.h"
