#pragma once

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

const char* format_name(device::WeightFormat format);  // as kernels have it in their names

void lower_product(const device::Matrix& step, LaunchList& list);

}  // namespace kvik::cuda
