#pragma once

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

// A product of more than 8 rows with wgmma. False if the format, the rows or the device have no such kernel.
bool lower_wide(const device::Matrix& step, LaunchList& list);

}  // namespace kvik::cuda
