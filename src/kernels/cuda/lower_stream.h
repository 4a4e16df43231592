#pragma once

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

// A product of up to 8 rows, with the norm and the conversion to f16 before it and the elementwise step behind it if they are of its rows
// alone: one launch on every multiprocessor. Returns the number of steps it fused, starting at `at`: 0 if they do not match,
// if the format has no kernel, or if shared memory is too small. Every value that the steps write is still written.
size_t lower_stream(std::span<const device::Step> steps, size_t at, LaunchList& list);

}  // namespace kvik::cuda
