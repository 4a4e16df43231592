#pragma once

#include <cstdint>

namespace kvik {

using TokenId = int32_t;

}  // namespace kvik
