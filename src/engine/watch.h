#pragma once

#include <functional>

namespace kvik::engine {

// Callbacks of the caller, between two runs.
struct Watch {
  std::function<void(int done, int total)> progress;
  std::function<bool()> cancelled;
};

}  // namespace kvik::engine
