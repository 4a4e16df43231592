#include "kernels/cuda/lower_products.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/cuda/lower_wide.h"
#include "kernels/device/order.h"

namespace kvik::cuda {
namespace {

using namespace device;

// Groups of 8 rows that a block takes: the smallest that there is a kernel for and that has room for all rows, or the largest.
int row_groups_for(WeightFormat format, int64_t n_rows) {
  static constexpr int kMany[] = {1, 2, 4, 8}, kFew[] = {1, 4};
  const bool common = format == WeightFormat::kF16 || format == WeightFormat::kQ8 || format == WeightFormat::kQ4;
  const std::span<const int> sizes = common ? std::span<const int>(kMany) : kFew;
  for (const int size : sizes) {
    if (size * 8 >= n_rows) return size;
  }
  return sizes.back();
}

}  // namespace

const char* format_name(WeightFormat format) {
  constexpr const char* kNames[] = {"f16", "f32", "q8", "q4", "q8_zero", "q4_zero"};
  return kNames[static_cast<size_t>(format)];
}

void lower_product(const Matrix& step, LaunchList& list) {
  if (lower_wide(step, list)) return;
  const Target& target = list.target();
  const bool two_planes = step.weights.format == WeightFormat::kF32;
  const int64_t n_rows = int64_t{step.rows.most} * step.parts;
  const int row_groups = row_groups_for(step.weights.format, n_rows);
  const int n_tiles = ceil_div(step.weights.n, 16), blocks = ceil_div(n_tiles, tiles_per_block(row_groups)),
            z = ceil_div(n_rows, row_groups * 8);
  const int n_slices = ceil_div(step.weights.k, kSliceColumns), slices_per_group = kGroupColumns / kSliceColumns;

  MatrixLaunch launch{.step = step, .slices_per_chunk = n_slices, .n_chunks = 1, .keeps_slices = false};
  const int wanted = 2 * target.n_units / std::max(1, blocks * z);  // so that all multiprocessors read at once
  if (wanted > 1 && n_slices > 1 && int64_t{blocks} * z <= target.n_tickets) {
    int chunk = ceil_div(n_slices, std::min(wanted, n_slices));
    launch.keeps_slices = n_slices <= slices_per_group || row_groups <= 2;
    if (!launch.keeps_slices) chunk = ceil_div(chunk, slices_per_group) * slices_per_group;
    launch.slices_per_chunk = chunk;
    launch.n_chunks = ceil_div(n_slices, chunk);
  }
  if (launch.n_chunks > 1) {
    const int n_parts = launch.keeps_slices ? n_slices : ceil_div(n_slices, slices_per_group);
    launch.parts = target.parts(static_cast<size_t>(n_parts) * static_cast<size_t>(z) * static_cast<size_t>(n_tiles) *
                                static_cast<size_t>(row_groups) * 32 * 16);
    launch.tickets = target.tickets;
  }
  list.add(fmt::format("matrix_{}_{}", format_name(step.weights.format), row_groups), {blocks, launch.n_chunks, z},
           tiles_per_block(row_groups) * 32, matrix_shared_bytes(row_groups, two_planes ? 2 : 1), launch);
}

}  // namespace kvik::cuda
