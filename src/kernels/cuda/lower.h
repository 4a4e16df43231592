#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/cuda/launches.h"
#include "kernels/device/device.h"

namespace kvik::cuda {

// One kernel launch: its argument is a struct of launches.h.
struct Launch {
  std::string kernel;
  unsigned grid[3] = {1, 1, 1};
  unsigned n_threads = 1;
  int shared_bytes = 0;
  std::vector<std::byte> argument;
};
using Action = std::variant<Launch, device::CopyBytes, device::WriteBytes, device::ReadBytes>;

// What launches are fitted to. It changes who computes what, and no bit.
struct Target {
  int n_units = 1;          // multiprocessors to fill
  int shared_bytes = 0;     // that a block may have
  bool merges_rows = true;  // consecutive row steps into one launch
  int64_t n_tickets = 0;
  device::Address tickets = device::Address::kNone;
  std::function<device::Address(size_t n_bytes)> parts;  // memory for sums of matrix products, shared by all steps
};

std::vector<Action> lower(std::span<const device::Step> steps, const Target& target);

}  // namespace kvik::cuda
