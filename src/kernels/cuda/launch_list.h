#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/lower.h"

namespace kvik::cuda {

constexpr int ceil_div(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

struct Grid {
  int x = 1, y = 1, z = 1;
};

// Largest magnitudes of parts of rows, which the last launch leaves for a conversion to f16.
struct LargestParts {
  device::View of;
  int64_t n = 0;  // elements of a row
  device::Address at = device::Address::kNone;
  int32_t n_parts = 0;
};

// The launches that steps have become so far. Row steps wait for more of them to share a launch: before anything else is added, `pending`
// adds that.
class LaunchList {
 public:
  explicit LaunchList(const Target& target) : target_(target) {}
  const Target& target() const { return target_; }
  void set_pending(std::function<void()> pending) { pending_ = std::move(pending); }

  template <class T>
  Launch& add(std::string kernel, Grid grid, int n_threads, int shared_bytes, const T& argument) {
    if (pending_) pending_();
    largest_.reset();
    Launch launch{.kernel = std::move(kernel), .n_threads = static_cast<unsigned>(n_threads), .shared_bytes = shared_bytes};
    const int sizes[] = {grid.x, grid.y, grid.z};
    for (size_t i = 0; i < 3; ++i) launch.grid[i] = static_cast<unsigned>(std::max(1, sizes[i]));
    launch.argument.resize(sizeof argument);
    std::memcpy(launch.argument.data(), &argument, sizeof argument);
    return std::get<Launch>(actions_.emplace_back(std::move(launch)));
  }
  void add(const Action& action) {
    if (pending_) pending_();
    largest_.reset();
    actions_.push_back(action);
  }
  // What the last launch has left, if it is of use to the next step.
  const std::optional<LargestParts>& largest() const { return largest_; }
  void set_largest(std::optional<LargestParts> largest) { largest_ = std::move(largest); }

  std::vector<Action> take() {
    if (pending_) pending_();
    return std::move(actions_);
  }

 private:
  const Target& target_;
  std::function<void()> pending_;
  std::optional<LargestParts> largest_;
  std::vector<Action> actions_;
};

}  // namespace kvik::cuda
