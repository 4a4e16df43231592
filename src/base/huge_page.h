#pragma once

#include <cstddef>

namespace kvik {

inline constexpr size_t kHugePage = size_t{2} << 20;  // bytes; the size on x86 and most of aarch64

}  // namespace kvik
