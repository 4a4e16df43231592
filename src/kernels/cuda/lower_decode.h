#pragma once

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

// Attention of rows that each have a sequence of their own, with its rotary and append before and its merging behind, as one launch. How
// many steps from `at` on it takes; 0: they are none, or the launch has no room for them.
size_t lower_decode(std::span<const device::Step> steps, size_t at, LaunchList& list);

}  // namespace kvik::cuda
