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
  unsigned cluster = 1;  // blocks along x that run together
  int shared_bytes = 0;
  std::vector<std::byte> argument;
};
using Action = std::variant<Launch, device::CopyBytes>;

// What launches are fitted to. It changes who computes what, and no bit.
struct Target {
  int n_units = 1;              // multiprocessors to fill
  int shared_bytes = 0;         // that a block may have
  bool merges_rows = true;      // consecutive row steps into one launch
  bool fuses_products = true;   // norm, conversion and elementwise steps into the launch of a product of few rows
  bool fuses_attention = true;  // rotary, append and merging into the launch of an attention
  bool chains_rows = true;      // row steps that keep their elements in registers
  bool quick_kernels = true;    // short kernels for the common products and attentions of few rows
  SpanWarps span_warps = SpanWarps::kAuto;
  int64_t n_tickets = 0;
  device::Address tickets = device::Address::kNone;
  bool wide_products = true;  // wgmma for more than 8 rows
  // How boxes of 64 columns and `box_rows` rows of f16 are copied.
  std::function<TensorMap(const device::View& rows, int64_t n_columns, int64_t n_rows, int box_rows)> map_rows;
  device::Address largest = device::Address::kNone;      // uint32 [kStreamRows][n_units]
  std::function<device::Address(size_t n_bytes)> parts;  // memory for sums of matrix products, shared by all steps
};

std::vector<Action> lower(std::span<const device::Step> steps, const Target& target);

}  // namespace kvik::cuda
