#include "kernels/cuda/lower_wide.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "kernels/cuda/lower_products.h"
#include "kernels/device/order.h"

namespace kvik::cuda {
namespace {

using namespace device;

constexpr int kSlicesPerGroup = kGroupColumns / kSliceColumns;

// As in wide_*.cu.
struct WideKernel {
  int rows;     // of a block
  int cluster;  // blocks that share the copies of weights, for neighboring row tiles
  bool floats_only = false;
};
constexpr WideKernel kWideKernels[] = {{16, 1}, {32, 1}, {64, 1}, {128, 2, true}};

// How the tiles, rows and slices of a product are dealt to blocks.
struct Division {
  WideKernel kernel;
  int tiles;   // of an item
  int slices;  // of a chunk
  bool keeps_slices;
};

// What a division takes, in cycles of a multiprocessor: rates and delays as measured on an H200, for the choice among divisions alone.
class Costs {
 public:
  Costs(const Matrix& step, const Target& target)
      : step_(step), n_units_(target.n_units), n_tiles_(ceil_div(step.weights.n, 16)), n_slices_(ceil_div(step.weights.k, kSliceColumns)) {}

  double of(const Division& d) const {
    constexpr double kSplitDelay = 3000, kRate = 20;  // cycles, bytes per cycle
    const int n_clusters = std::max(1, n_units_ / d.kernel.cluster), n_chunks = ceil_div(n_slices_, d.slices);
    const int row_runs = ceil_div(step_.rows.most, d.kernel.rows * d.kernel.cluster), runs = row_runs * ceil_div(n_tiles_, d.tiles);
    // Items of whole chunks come first; shorter ones fill the last round.
    const int short_slices = n_slices_ % d.slices, n_whole = runs * (n_slices_ / d.slices), n_short = short_slices > 0 ? runs : 0;
    const int n_left = std::max(0, n_short - (n_clusters - n_whole % n_clusters) % n_clusters);
    const int n_active = std::min(n_whole + n_short, n_clusters) * d.kernel.cluster;
    double cost = ceil_div(n_whole, n_clusters) * item(d, d.slices, row_runs, n_active) +
                  ceil_div(n_left, n_clusters) * item(d, short_slices, row_runs, n_active);
    if (n_chunks == 1 && n_slices_ > kSlicesPerGroup) cost *= 1.2;  // sums of groups leave less room for the ring
    const int n_parts = d.keeps_slices ? n_slices_ : ceil_div(n_slices_, kSlicesPerGroup);
    if (n_chunks > 1) cost += kSplitDelay + n_parts * 16.0 * d.tiles * d.kernel.rows * 2 / kRate;
    return cost;
  }

 private:
  double item(const Division& d, int n_slices, int row_runs, int n_active) const {
    // Bytes per cycle: of one multiprocessor, and of each if all read at once.
    constexpr double kCacheRate = 18, kMemoryRate = 18;
    const bool is_one_tile = step_.rows.most <= 64;  // of rows: a block has little to do and waits for most of its time
    const double most_rate = d.kernel.cluster > 1 ? 20 : is_one_tile ? 31 : 25;
    const double stage_delay = is_one_tile ? 800 : 400, item_delay = 1000 + (is_one_tile ? 400 * ceil_div(d.tiles, 4) : 0);
    const double rate = std::min(most_rate, kCacheRate * n_units_ / n_active);
    const WeightFormat format = step_.weights.format;
    const double columns = n_slices * kSliceColumns, rows = d.kernel.rows;
    const double weight_bytes =
        columns / wide_stage_columns(format, d.kernel.rows) * wide_tile_bytes(format, d.kernel.rows) * d.tiles / d.kernel.cluster;
    const double from_memory = weight_bytes / row_runs / kMemoryRate, from_cache = (weight_bytes + columns * 2 * rows) / rate;
    const double products = columns / 16 * ceil_div(d.tiles, 4) * rows / 2 * (format == WeightFormat::kF16 && !is_one_tile ? 1.5 : 3.0);
    const double stages = columns / wide_stage_columns(format, d.kernel.rows) * stage_delay;
    return std::max({from_memory, from_cache, products, stages}) + item_delay;
  }

  const Matrix& step_;
  int n_units_, n_tiles_, n_slices_;
};

bool is_for(const WideKernel& kernel, WeightFormat format, int n_rows) {
  if (kernel.floats_only && format != WeightFormat::kF16) return false;
  return n_rows > 64 ? kernel.rows >= 64 : n_rows <= kernel.rows && (n_rows > kernel.rows / 2 || kernel.rows == 16);
}

std::optional<Division> divide(const Matrix& step, const Target& target) {
  const Costs costs(step, target);
  const int n_tiles = ceil_div(step.weights.n, 16), n_slices = ceil_div(step.weights.k, kSliceColumns),
            n_groups = ceil_div(n_slices, kSlicesPerGroup);
  std::optional<Division> best;
  double least = 0;
  const auto consider = [&](const Division& d) {
    if (d.slices < n_slices && int64_t{ceil_div(n_tiles, d.tiles)} * ceil_div(step.rows.most, d.kernel.rows) > target.n_tickets) return;
    const double cost = costs.of(d);
    if (!best || cost < least) best = d, least = cost;
  };
  for (const WideKernel& kernel : kWideKernels) {
    if (!is_for(kernel, step.weights.format, step.rows.most)) continue;
    for (int tiles = 1; tiles <= wide_most_tiles(step.weights.format, kernel.rows); ++tiles) {
      for (int groups = n_groups; groups >= 1; --groups) consider({kernel, tiles, std::min(groups * kSlicesPerGroup, n_slices), false});
      if (n_groups == 1)
        for (int slices = 1; slices < n_slices; ++slices) consider({kernel, tiles, slices, true});
    }
  }
  return best;
}

}  // namespace

bool lower_wide(const Matrix& step, LaunchList& list) {
  const Target& target = list.target();
  const WeightFormat format = step.weights.format;
  const bool has_kernel = format == WeightFormat::kF16 || format == WeightFormat::kQ8 || format == WeightFormat::kQ4;
  const bool is_aligned = step.x.stride % 16 == 0 && static_cast<uint64_t>(step.x.base) % 16 == 0;
  constexpr int kMostColumns = 1 << 20;  // a tile's bytes fit into 32 bits
  if (!target.wide_products || !target.map_rows || !has_kernel || !is_aligned || step.parts != 1 || step.rows.most <= 8 ||
      step.weights.k > kMostColumns)
    return false;
  const std::optional<Division> division = divide(step, target);
  if (!division) return false;
  const WideKernel& kernel = division->kernel;
  const int n_tiles = ceil_div(step.weights.n, 16), n_slices = ceil_div(step.weights.k, kSliceColumns);
  WideLaunch launch{};
  launch.n_tiles = division->tiles;
  launch.n_tile_blocks = ceil_div(n_tiles, division->tiles);
  launch.n_row_tiles = ceil_div(step.rows.most, kernel.rows);
  launch.matrix = {.step = step,
                   .slices_per_chunk = division->slices,
                   .n_chunks = ceil_div(n_slices, division->slices),
                   .keeps_slices = division->keeps_slices};
  const int n_warps = ceil_div(division->tiles, 4) * 4, stage_bytes = wide_stage_bytes(format, kernel.rows, division->tiles);
  const bool has_totals = launch.matrix.n_chunks == 1 && division->slices > kSlicesPerGroup;
  constexpr int kAlignment = 1024;
  const int result_bytes = n_warps * kWideResultRows * kWideResultStride * 4, total_bytes = has_totals ? n_warps * 16 * kernel.rows * 4 : 0;
  const int room = target.shared_bytes - kAlignment - result_bytes - total_bytes;
  const int most_stages = ceil_div(division->slices * kSliceColumns, wide_stage_columns(format, kernel.rows));
  launch.n_stages = std::min({room / stage_bytes, kMostWideStages, std::max(2, most_stages)});
  if (launch.n_stages < 2) return false;
  launch.results_at = launch.n_stages * stage_bytes;
  launch.totals_at = launch.results_at + result_bytes;
  if (launch.matrix.n_chunks > 1) {
    const auto n_parts = static_cast<size_t>(division->keeps_slices ? n_slices : ceil_div(n_slices, kSlicesPerGroup));
    launch.matrix.parts = target.parts(n_parts * static_cast<size_t>(launch.n_row_tiles) * static_cast<size_t>(n_tiles) *
                                       static_cast<size_t>(kernel.rows) * 64);
    launch.matrix.tickets = target.tickets;
  }
  launch.rows = target.map_rows(step.x, (step.weights.k + 63) / 64 * 64, step.rows.most, kernel.rows);
  const int64_t n_items = int64_t{ceil_div(launch.n_row_tiles, kernel.cluster)} * launch.n_tile_blocks * launch.matrix.n_chunks;
  const auto n_clusters = static_cast<int>(std::min<int64_t>(n_items, std::max(1, target.n_units / kernel.cluster)));
  list.add(fmt::format("wide_{}_{}", format_name(format), kernel.rows), {n_clusters * kernel.cluster}, n_warps * 32 + 128,
           launch.totals_at + total_bytes + kAlignment, launch);
  return true;
}

}  // namespace kvik::cuda
