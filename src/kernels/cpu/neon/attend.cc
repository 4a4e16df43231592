#include "kernels/cpu/neon/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/body/append.h"
#include "kernels/cpu/body/attend.h"
