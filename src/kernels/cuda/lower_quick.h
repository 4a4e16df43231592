#pragma once

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

// A product of a decoder's layer for up to 8 rows, with the steps around it, into one launch of quick.cuh. See Fuser in lower.cc.
size_t lower_quick(std::span<const device::Step> steps, size_t at, LaunchList& list);

}  // namespace kvik::cuda
