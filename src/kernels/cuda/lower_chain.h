#pragma once

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

// Row steps whose elements stay in registers (ChainLaunch). How many from `at` on one such launch takes; 0: none.
size_t lower_chain(std::span<const device::Step> steps, size_t at, LaunchList& list);

}  // namespace kvik::cuda
