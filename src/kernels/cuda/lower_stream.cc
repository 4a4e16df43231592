#include "kernels/cuda/lower_stream.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/cuda/lower_products.h"
#include "kernels/cuda/memory_range.h"
#include "kernels/cuda/stream_pattern.h"
#include "kernels/device/order.h"

namespace kvik::cuda {
namespace {

using namespace device;

// What a choice of chunks costs, in microseconds of an H200. It decides who computes what, and no bit.
struct StreamCosts {
  double memory = 4.3e6;  // bytes, of all multiprocessors
  double unit = 9e4;      // bytes that one multiprocessor can take
  double slice = 0.06;    // to multiply one
  double rows = 5e4;      // bytes of rows that a block converts
  double parts = 2.0;     // sums that go through memory
};

struct StreamShape {
  int n_tiles = 0, n_slices = 0, n_rows = 0, slice_bytes = 0, tiles_per_item = 1;
};

// How the work is divided if k is in `n_chunks` chunks.
struct Division {
  int n_chunks = 1, slices_per_chunk = 1, blocks = 1, items_per_block = 1, chunks_per_block = 1;
};

Division divide(const StreamShape& shape, int n_chunks, int n_units) {
  constexpr int kPerGroup = kGroupColumns / kSliceColumns;
  Division division{.n_chunks = n_chunks, .slices_per_chunk = shape.n_slices};
  if (n_chunks > 1) division.slices_per_chunk = ceil_div(ceil_div(shape.n_slices, kPerGroup), n_chunks) * kPerGroup;
  const int n_items = shape.n_tiles * n_chunks;
  division.blocks = std::min(n_items, n_units);
  division.items_per_block = ceil_div(n_items, division.blocks);
  division.chunks_per_block = std::min(n_chunks, ceil_div(division.items_per_block - 1, shape.n_tiles) + 1);
  return division;
}

double cost_of(const StreamShape& shape, const Division& division, bool converts) {
  const StreamCosts costs;
  const double all = double(shape.n_tiles) * shape.n_slices * shape.tiles_per_item * shape.slice_bytes / costs.memory;
  const double slices = double(division.items_per_block) * division.slices_per_chunk * shape.tiles_per_item;
  const double rows = double(shape.n_rows) * division.chunks_per_block * division.slices_per_chunk * kSliceColumns * (converts ? 4 : 2);
  return std::max(all, slices * std::max(costs.slice, shape.slice_bytes / costs.unit)) + rows / costs.rows +
         (division.n_chunks > 1 ? costs.parts : 0.0);
}

int64_t aligned(int64_t bytes) { return (bytes + 127) / 128 * 128; }

// Places everything in shared memory, with as many slots in the rings as help and fit. Returns the bytes, 0 if it does not fit.
int64_t place(const StreamShape& shape, const Division& division, WeightFormat format, const Target& target, StreamLaunch& launch) {
  const int rows_of_sums = 1 << launch.row_shift, slices_per_item = division.slices_per_chunk * shape.tiles_per_item;
  const int64_t columns = int64_t{division.chunks_per_block} * division.slices_per_chunk * kSliceColumns;
  const int64_t row_bytes = aligned(int64_t{shape.n_rows} * (columns + 8) * 2);
  const bool is_normed = launch.input == StreamInput::kNormed;
  const int64_t gain_bytes = is_normed ? aligned(int64_t{launch.k} * (launch.gain_bias != Address::kNone ? 8 : 4)) : 0;
  const bool has_constants = launch.weight_scales != Address::kNone || launch.bias != Address::kNone;
  constexpr int kMostConstantBytes = 16 << 10, kMostSumBytes = 60 << 10;
  const int64_t constants = int64_t{division.items_per_block} * shape.tiles_per_item * 16 * 8;
  const int64_t constant_bytes = has_constants && division.n_chunks == 1 && constants <= kMostConstantBytes ? aligned(constants) : 0;
  const int64_t stage_bytes = is_normed ? int64_t{shape.n_rows} * (launch.k + kStrands) * 4 : 0;
  const int64_t item_bytes = int64_t{slices_per_item} * rows_of_sums * 64;
  launch.items_per_turn = division.items_per_block;
  int64_t sum_bytes = item_bytes * division.items_per_block;
  if (division.n_chunks == 1 && sum_bytes > kMostSumBytes) {
    launch.items_per_turn = static_cast<int32_t>(std::max<int64_t>(1, kMostSumBytes / 2 / item_bytes));
    sum_bytes = item_bytes * launch.items_per_turn * 2;
  }
  const int64_t rest = row_bytes + gain_bytes + constant_bytes + aligned(std::max(stage_bytes, sum_bytes));
  const int64_t slot_bytes = int64_t{kStreamWarps} * shape.slice_bytes;
  const int64_t wanted = ceil_div(int64_t{division.items_per_block} * slices_per_item, kStreamWarps), of_use = 3;
  launch.ring_slots = static_cast<int32_t>(std::min({wanted, of_use, (target.shared_bytes - rest) / slot_bytes}));
  if (launch.ring_slots < 1) return 0;
  launch.rows_at = static_cast<int32_t>(launch.ring_slots * slot_bytes);
  launch.gains_at = static_cast<int32_t>(launch.rows_at + row_bytes);
  launch.constants_at = static_cast<int32_t>(launch.gains_at + gain_bytes);
  launch.sums_at = static_cast<int32_t>(launch.constants_at + constant_bytes);
  if (constant_bytes == 0) launch.constants_at = -1;
  const int64_t bytes = launch.ring_slots * slot_bytes + rest;
  // Two blocks on one multiprocessor while another one has none take twice as long. Where memory is the limit, it is still better that the
  // next launch's weights begin to arrive.
  constexpr int64_t kMoreThanHalf = 116 << 10;
  return format == WeightFormat::kF16 ? bytes : std::clamp(kMoreThanHalf, bytes, std::max<int64_t>(bytes, target.shared_bytes));
}

// A thread keeps its share of a row in registers, if all of the row has to be looked at.
bool keeps_rows(const StreamLaunch& launch) {
  if (launch.input == StreamInput::kHalves || launch.largest_in != Address::kNone) return true;
  return ceil_div(launch.k, 64) * 16 <= (kStreamThreads >> launch.row_shift) * kStreamQuads;
}

StreamView stream_view(const View& view) { return {view.base, view.stride}; }

// What the launch is to do, before it is decided how.
StreamLaunch launch_of(const StreamPattern& pattern) {
  const Matrix& matrix = *pattern.matrix;
  StreamLaunch launch{.units = matrix.weights.units, .k = matrix.weights.k, .n = matrix.weights.n};
  launch.most = matrix.rows.most * matrix.parts;
  launch.parts_of_row = matrix.parts;
  while ((1 << launch.row_shift) < launch.most) ++launch.row_shift;
  launch.n_rows = matrix.rows.n_rows;
  launch.x = launch.halves = stream_view(matrix.x);
  launch.x_scale = stream_view(matrix.scale);
  launch.weight_scales = matrix.weights.scales;
  launch.bias = matrix.bias;
  launch.residual = stream_view(matrix.residual);
  launch.selection = matrix.selection;
  launch.out = stream_view(matrix.out);
  if (pattern.half != nullptr) {
    launch.input = StreamInput::kFloats;
    launch.x = stream_view(pattern.half->x);
  }
  if (const Norm* norm = pattern.norm) {
    launch.input = StreamInput::kNormed;
    launch.x = stream_view(norm->x);
    launch.normed = stream_view(norm->out);
    launch.gain = norm->weight.base;
    launch.gain_bias = norm->bias.base;
    launch.is_centered = norm->centered;
    launch.epsilon = norm->epsilon;
  }
  if (const Elementwise* after = pattern.after) {
    launch.has_after = true;
    launch.pairs = pattern.pairs;
    launch.own_operand = static_cast<uint8_t>(pattern.own_operand);
    launch.kind = after->kind;
    launch.unary = after->unary;
    launch.binary = after->binary;
    launch.low = after->low;
    launch.high = after->high;
    launch.after_out = stream_view(after->out);
    if (!pattern.pairs && has_two_operands(*after)) launch.other = stream_view(after->in[1 - pattern.own_operand]);
  }
  return launch;
}

bool has_kernel(const Matrix& matrix) {
  const WeightFormat format = matrix.weights.format;
  return (format == WeightFormat::kF16 || format == WeightFormat::kQ8 || format == WeightFormat::kQ4) &&
         int64_t{matrix.rows.most} * matrix.parts <= kStreamRows;
}

bool add_launch(const StreamPattern& pattern, bool wants_largest, LaunchList& list) {
  const Target& target = list.target();
  const Matrix& matrix = *pattern.matrix;
  const WeightFormat format = matrix.weights.format;
  const int n_groups = ceil_div(matrix.weights.k, kGroupColumns);
  StreamLaunch launch = launch_of(pattern);
  StreamShape shape{.n_tiles = ceil_div(matrix.weights.n, 16), .n_slices = ceil_div(matrix.weights.k, kSliceColumns)};
  shape.n_rows = launch.most;
  shape.slice_bytes = stream_slice_bytes(format);
  if (pattern.pairs) shape.n_tiles /= 2, shape.tiles_per_item = 2;
  launch.n_tiles = shape.n_tiles;
  if (const auto& largest = list.largest();
      launch.input == StreamInput::kFloats && largest.has_value() && is_same(largest->of, pattern.half->x) && largest->n == launch.k)
    launch.largest_in = largest->at, launch.n_largest = largest->n_parts;
  if (!keeps_rows(launch)) return false;

  std::optional<Division> best;
  StreamLaunch placed;
  int64_t shared_bytes = 0;
  double least = 0;
  for (int c = 1; c <= (pattern.pairs ? 1 : n_groups); ++c) {
    const Division division = divide(shape, c, target.n_units);
    if (ceil_div(shape.n_slices, division.slices_per_chunk) != c || (c > 1 && shape.n_tiles > target.n_tickets)) continue;
    StreamLaunch tried = launch;
    const int64_t bytes = place(shape, division, format, target, tried);
    const double cost = cost_of(shape, division, launch.input != StreamInput::kHalves);
    if (bytes == 0 || (best.has_value() && cost >= least)) continue;
    best = division, least = cost, placed = tried, shared_bytes = bytes;
  }
  if (!best.has_value()) return false;
  placed.n_chunks = best->n_chunks;
  placed.slices_per_chunk = best->slices_per_chunk;
  placed.chunks_per_block = best->chunks_per_block;
  placed.items_per_block = shape.n_tiles * best->n_chunks / best->blocks;
  placed.n_larger_blocks = shape.n_tiles * best->n_chunks % best->blocks;
  if (best->n_chunks > 1) {
    placed.parts = target.parts(static_cast<size_t>(n_groups) * static_cast<size_t>(shape.n_tiles) * 64u << placed.row_shift);
    placed.tickets = target.tickets;
  }
  if (wants_largest) placed.largest_out = target.largest;
  list.add(fmt::format("stream_{}", format_name(format)), {best->blocks}, kStreamThreads, static_cast<int>(shared_bytes), placed);
  if (wants_largest) list.set_largest(LargestParts{pattern.result(), pattern.result_size(), placed.largest_out, best->blocks});
  return true;
}

}  // namespace

size_t lower_stream(std::span<const Step> steps, size_t at, LaunchList& list) {
  const std::optional<StreamPattern> pattern = find_stream_pattern(steps, at, list.target().fuses_products);
  if (!pattern.has_value() || !has_kernel(*pattern->matrix)) return 0;
  const size_t next = at + pattern->n_steps();
  const auto* half = next < steps.size() ? std::get_if<ToHalf>(&steps[next]) : nullptr;
  const bool wants_largest = list.target().fuses_products && half != nullptr && half->parts == 1 && pattern->matrix->parts == 1 &&
                             is_same(half->x, pattern->result()) && half->k == pattern->result_size();
  return add_launch(*pattern, wants_largest, list) ? pattern->n_steps() : 0;
}

}  // namespace kvik::cuda
