#include "kernels/cuda/lower.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "kernels/device/order.h"
#include "kvik/error.h"

namespace kvik::cuda {
namespace {

using namespace device;

int ceil_div(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

template <class T>
std::vector<std::byte> argument_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
constexpr std::optional<RowKind> kRowKind = std::nullopt;
template <>
constexpr std::optional<RowKind> kRowKind<Embed> = RowKind::kEmbed;
template <>
constexpr std::optional<RowKind> kRowKind<ToHalf> = RowKind::kToHalf;
template <>
constexpr std::optional<RowKind> kRowKind<Elementwise> = RowKind::kElementwise;
template <>
constexpr std::optional<RowKind> kRowKind<Norm> = RowKind::kNorm;
template <>
constexpr std::optional<RowKind> kRowKind<Softmax> = RowKind::kSoftmax;
template <>
constexpr std::optional<RowKind> kRowKind<Reduction> = RowKind::kReduction;
template <>
constexpr std::optional<RowKind> kRowKind<Rotary> = RowKind::kRotary;
template <>
constexpr std::optional<RowKind> kRowKind<Move> = RowKind::kMove;
template <>
constexpr std::optional<RowKind> kRowKind<Append> = RowKind::kAppend;
template <>
constexpr std::optional<RowKind> kRowKind<MergeSpans> = RowKind::kMergeSpans;
template <>
constexpr std::optional<RowKind> kRowKind<Register> = RowKind::kRegister;
template <>
constexpr std::optional<RowKind> kRowKind<GatherRows> = RowKind::kGatherRows;

// Of the largest row that a step keeps in shared memory.
template <class T>
int64_t floats_of(const T& step) {
  if constexpr (requires { step.n; }) return step.n;
  if constexpr (std::is_same_v<T, ToHalf>) return int64_t{step.parts} * step.k;
  if constexpr (std::is_same_v<T, Rotary>) return step.n_heads * step.head_dim;
  if constexpr (std::is_same_v<T, MergeSpans>) return int64_t{step.n_heads} * step.value_dim;
  if constexpr (std::is_same_v<T, Embed>) return step.weights.k;
  return 0;
}

const char* format_name(WeightFormat format) {
  constexpr const char* kNames[] = {"f16", "f32", "q8", "q4", "q8_zero", "q4_zero"};
  return kNames[static_cast<size_t>(format)];
}

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

class Lowering {
 public:
  explicit Lowering(const Target& target) : target_(target) {}

  template <class T>
  void add(const T& step) {
    if constexpr (kRowKind<T>.has_value()) {
      static_assert(sizeof(T) <= sizeof(RowOp::step));
      add_row(*kRowKind<T>, step.rows, &step, sizeof step, std::is_same_v<T, GatherRows>, floats_of(step) * 4);
    } else {
      end_rows();
      launch(step);
    }
  }
  std::vector<Action> finish() {
    end_rows();
    return std::move(actions_);
  }

 private:
  // A gathered row is another block's: what makes it is in a launch before.
  void add_row(RowKind kind, const Rows& rows, const void* step, size_t size, bool gathers, int64_t result_bytes) {
    const bool same = rows.rows == program_.rows.rows && rows.n_rows == program_.rows.n_rows && rows.most == program_.rows.most;
    if (program_.n_ops == kMostRowOps || !same || gathers || !target_.merges_rows) end_rows();
    program_.rows = rows;
    slot_bytes_ = std::max(slot_bytes_, result_bytes);
    RowOp& op = program_.ops[program_.n_ops++];
    op.kind = kind;
    std::memcpy(op.step, step, size);
  }

  void end_rows() {
    if (program_.n_ops == 0) return;
    const int n_blocks = std::min(program_.rows.most, target_.n_units * 4);
    constexpr int kOtherBytes = 20 << 10;  // that the kernel has besides
    const int64_t most = (target_.shared_bytes - kOtherBytes) / kRowSlots / 64 * 64;
    program_.slot_bytes = static_cast<int32_t>(std::min(most, (slot_bytes_ + 63) / 64 * 64));
    push("rows_program", {n_blocks, 1, 1}, kRowThreads, kRowSlots * program_.slot_bytes, program_);
    program_.n_ops = 0;
    slot_bytes_ = 0;
  }

  struct Grid {
    int x, y, z;
  };
  template <class T>
  void push(std::string kernel, Grid grid, int n_threads, int shared_bytes, const T& argument) {
    Launch launch{.kernel = std::move(kernel), .n_threads = static_cast<unsigned>(n_threads), .shared_bytes = shared_bytes};
    const int sizes[] = {grid.x, grid.y, grid.z};
    for (size_t i = 0; i < 3; ++i) launch.grid[i] = static_cast<unsigned>(std::max(1, sizes[i]));
    launch.argument = argument_of(argument);
    actions_.emplace_back(std::move(launch));
  }

  void launch(const Begin& step) { push("rows_begin", {4, 1, 1}, 256, 0, step); }
  void launch(const CopyBytes& step) { actions_.emplace_back(step); }
  void launch(const WriteBytes& step) { actions_.emplace_back(step); }
  void launch(const ReadBytes& step) { actions_.emplace_back(step); }
  void launch(const Choose& step) {
    push("choose_rows", {std::min(step.rows.most, target_.n_units * 2), 1, 1}, kChooseThreads, 0, ChooseLaunch{step});
  }

  // Up to 8 rows: a ring kernel on every multiprocessor. False if shared memory has no room for the rows.
  bool launch_stream(const Matrix& step) {
    const WeightFormat format = step.weights.format;
    const bool has_kernel = format == WeightFormat::kF16 || format == WeightFormat::kQ8 || format == WeightFormat::kQ4;
    const int64_t n_rows = int64_t{step.rows.most} * step.parts;
    if (!has_kernel || n_rows > 8) return false;
    const int n_tiles = ceil_div(step.weights.n, 16), n_slices = ceil_div(step.weights.k, kSliceColumns);
    // The number of chunks for which the block with the most slices has the fewest. Sums through memory cost about as much as some slices.
    constexpr int kMostChunks = 16, kCostOfParts = 3;
    int n_chunks = 1, least = INT32_MAX;
    for (int c = 1; c <= std::min(n_slices, kMostChunks); ++c) {
      const int per_chunk = ceil_div(n_slices, c);
      if (ceil_div(n_slices, per_chunk) != c || (c > 1 && n_tiles > target_.n_tickets)) continue;
      const int cost = ceil_div(int64_t{n_tiles} * c, target_.n_units) * per_chunk + (c > 1 ? kCostOfParts : 0);
      if (cost < least) least = cost, n_chunks = c;
    }
    StreamLaunch launch{
        .matrix = {.step = step, .slices_per_chunk = ceil_div(n_slices, n_chunks), .n_chunks = n_chunks, .keeps_slices = true}};
    const int per_chunk = launch.matrix.slices_per_chunk, n_items = n_tiles * n_chunks, blocks = std::min(n_items, target_.n_units);
    const int items_per_block = ceil_div(n_items, blocks);
    launch.chunks_per_block = std::min(n_chunks, ceil_div(items_per_block - 1, n_tiles) + 1);
    const int n_warps = stream_warps(format), ring_units = 2 * kSliceColumns / (format == WeightFormat::kQ4 ? 64 : 32);
    constexpr int kSlicesPerTurn = 48;
    launch.items_per_turn = n_chunks > 1 ? items_per_block : std::clamp(kSlicesPerTurn / n_slices, 1, items_per_block);
    launch.results_at = n_warps * ring_units * stream_unit_bytes(format);
    launch.rows_at = launch.results_at + n_warps * 512;
    const int64_t row_bytes = n_rows * (int64_t{launch.chunks_per_block} * per_chunk * kSliceColumns + 8) * 2;
    const int64_t sum_bytes = n_chunks > 1 ? 0 : int64_t{2} * launch.items_per_turn * n_slices * 512, sums_at = launch.rows_at + row_bytes;
    if (sums_at + sum_bytes > target_.shared_bytes) return false;
    launch.sums_at = static_cast<int32_t>(sums_at);
    if (n_chunks > 1) {
      launch.matrix.parts = target_.parts(static_cast<size_t>(n_slices) * static_cast<size_t>(n_tiles) * 512);
      launch.matrix.tickets = target_.tickets;
    }
    push(fmt::format("stream_{}", format_name(format)), {blocks, 1, 1}, n_warps * 32, static_cast<int>(sums_at + sum_bytes), launch);
    return true;
  }

  void launch(const Matrix& step) {
    if (launch_stream(step)) return;
    const bool wide = step.weights.format == WeightFormat::kF32;
    const int64_t n_rows = int64_t{step.rows.most} * step.parts;
    const int row_groups = row_groups_for(step.weights.format, n_rows);
    const int n_tiles = ceil_div(step.weights.n, 16), blocks = ceil_div(n_tiles, tiles_per_block(row_groups)),
              z = ceil_div(n_rows, row_groups * 8);
    const int n_slices = ceil_div(step.weights.k, kSliceColumns), slices_per_group = kGroupColumns / kSliceColumns;

    MatrixLaunch launch{.step = step, .slices_per_chunk = n_slices, .n_chunks = 1, .keeps_slices = false};
    const int wanted = 2 * target_.n_units / std::max(1, blocks * z);  // so that all multiprocessors read at once
    if (wanted > 1 && n_slices > 1 && int64_t{blocks} * z <= target_.n_tickets) {
      int chunk = ceil_div(n_slices, std::min(wanted, n_slices));
      launch.keeps_slices = n_slices <= slices_per_group || row_groups <= 2;
      if (!launch.keeps_slices) chunk = ceil_div(chunk, slices_per_group) * slices_per_group;
      launch.slices_per_chunk = chunk;
      launch.n_chunks = ceil_div(n_slices, chunk);
    }
    if (launch.n_chunks > 1) {
      const int n_parts = launch.keeps_slices ? n_slices : ceil_div(n_slices, slices_per_group);
      launch.parts = target_.parts(static_cast<size_t>(n_parts) * static_cast<size_t>(z) * static_cast<size_t>(n_tiles) *
                                   static_cast<size_t>(row_groups) * 32 * 16);
      launch.tickets = target_.tickets;
    }
    push(fmt::format("matrix_{}_{}", format_name(step.weights.format), row_groups), {blocks, launch.n_chunks, z},
         tiles_per_block(row_groups) * 32, matrix_shared_bytes(row_groups, wide ? 2 : 1), launch);
  }

  void launch(const Attend& step) {
    const KvLayout& layout = step.layout;
    AttendLaunch launch{.step = step};
    const auto padded = [](int32_t dim) { return (dim + 15) / 16 * 16 + 8; };
    launch.key_stride = padded(layout.key_dim);
    launch.value_stride = padded(layout.value_dim);
    const int key_bytes = layout.planes * kSpanPositions * launch.key_stride * 2;
    const int value_bytes = layout.planes * kSpanPositions * launch.value_stride * 2;
    const int query_bytes = layout.planes * 16 * launch.key_stride * 2, score_bytes = 16 * kScoreStride * 4;
    const int rest = query_bytes + score_bytes + layout.planes * 16 * kWeightStride * 2;
    launch.keeps_both = key_bytes + value_bytes + rest <= target_.shared_bytes;
    launch.values_at = launch.keeps_both ? key_bytes : 0;
    launch.queries_at = launch.keeps_both ? key_bytes + value_bytes : std::max(key_bytes, value_bytes);
    launch.scores_at = launch.queries_at + query_bytes;
    launch.weights_at = launch.scores_at + score_bytes;
    const int shared_bytes = launch.queries_at + rest;
    if (shared_bytes > target_.shared_bytes) throw Error(Code::kInternal, "heads of an attention are too large for the device");
    const int blocks = std::min(step.groups.most, target_.n_units * 8) * layout.n_heads;
    launch.n_splits = std::clamp(2 * target_.n_units / std::max(1, blocks), 1, step.parts.n_parts);
    push(layout.planes == 2 ? "attend_2" : "attend_1", {std::min(step.groups.most, target_.n_units * 8), layout.n_heads, launch.n_splits},
         kAttendThreads, shared_bytes, launch);
  }

  const Target& target_;
  RowProgram program_{};
  int64_t slot_bytes_ = 0;  // of the largest row that its steps read or write
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> lower(std::span<const Step> steps, const Target& target) {
  Lowering lowering(target);
  for (const Step& step : steps) std::visit([&](const auto& args) { lowering.add(args); }, step);
  return lowering.finish();
}

}  // namespace kvik::cuda
