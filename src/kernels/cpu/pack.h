#pragma once

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sources.h"
#include "kernels/cpu/weights.h"

namespace kvik::cpu {

// Changes whenever the same matrix is packed into other bytes: packed weights are kept in files (backend/native/compiled_file.h).
inline constexpr int kPackingVersion = 3;

// Each writes the panels [range.begin, range.end) of a layout; data is layout.size_bytes long, 64-byte aligned and zeroed. Different
// panels may be packed by different threads at once; who packs a panel changes no bit.

// Into any float layout (by rounding) or block layout (by quantizing; without zero points). Throws Error(kBadModel) for infinities and
// NaNs, and Error(kUnsupported) for weights so large that their scale does not fit, when quantizing.
void pack_panels(const FloatSource& source, const WeightLayout& layout, std::byte* data, PanelRange range);

// As they are, into the layout that layout_for() gave.
void pack_panels(const QuantSource& source, const WeightLayout& layout, std::byte* data, PanelRange range);

// 8-bit codes with one scale and zero point a column (strides of 0 along k), for integer products, into channel_layout().
void pack_channels(const QuantSource& source, const WeightLayout& layout, std::byte* data, PanelRange range);

// Packed weights with the memory they lie in.
struct Weights {
  AlignedBuffer memory;
  PackedWeights view{};
};
Weights pack(ThreadPool& pool, const FloatSource& source, const WeightLayout& layout);
Weights pack(ThreadPool& pool, const QuantSource& source);
Weights pack_channels(ThreadPool& pool, const QuantSource& source);

}  // namespace kvik::cpu
