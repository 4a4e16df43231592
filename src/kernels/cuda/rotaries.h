#pragma once

#include <span>

#include "kernels/cuda/launch_list.h"

namespace kvik::cuda {

// The input of the rotary embedding whose output this view of some heads is; empty if it is not such an output.
RotaryOf source_of(const device::View& view, int64_t n_heads, const device::Rotary& rotary);

// Rotary steps from `at` on, at most two, and the append behind them. No append: there is none.
struct RotatedAppend {
  std::vector<const device::Rotary*> rotaries;
  const device::Append* append = nullptr;
  size_t n_steps() const { return rotaries.size() + (append != nullptr ? 1 : 0); }
};
RotatedAppend find_append(std::span<const device::Step> steps, size_t at);
// They are of the same rows, and of all of them.
bool is_of(const RotatedAppend& steps, const device::Rows& rows);

// Rotary and append as a launch of their own: how many steps from `at` on it takes; 0: none.
size_t lower_append(std::span<const device::Step> steps, size_t at, LaunchList& list);

}  // namespace kvik::cuda
