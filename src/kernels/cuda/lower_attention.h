#pragma once

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

void lower_attention(const device::Attend& step, LaunchList& list);

}  // namespace kvik::cuda
