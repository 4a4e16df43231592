#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/steps.h"

namespace kvik::device {

inline constexpr int kMostHeadDim = 512;  // planes times elements of a key or value, in attention kernels

// planes: 1 for f16, 2 for f32. Throws Error(kBadArgument) unless all counts are at least 1 and of a sane size.
KvLayout kv_layout(int planes, int64_t n_heads, int64_t key_dim, int64_t value_dim);

// Zeros for what one layer keeps of the positions of a page from `first` on, in a host copy of the page; `page` is where the layer begins.
void clear_positions(const KvLayout& layout, std::byte* page, int first);

}  // namespace kvik::device
