#pragma once

#include <cstdint>

namespace kvik {

using TokenId = int32_t;

enum class LogLevel { kDebug, kInfo, kWarning, kError };

}  // namespace kvik
