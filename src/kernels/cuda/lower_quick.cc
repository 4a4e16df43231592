#include "kernels/cuda/lower_quick.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/cuda/lower_products.h"
#include "kernels/cuda/memory_range.h"
#include "kernels/cuda/stream_pattern.h"
#include "kernels/device/order.h"

namespace kvik::cuda {
namespace {

using namespace device;

constexpr int kSlicesAGroup = kGroupColumns / kSliceColumns;
constexpr int64_t aligned(int64_t bytes) { return (bytes + 127) / 128 * 128; }
constexpr int padded(int k) { return (k + 63) / 64 * 64; }
StreamView stream_view(const View& view) { return {view.base, view.stride}; }

bool is_added(const StreamPattern& pattern) {
  const Elementwise& after = *pattern.after;
  return after.kind == Elementwise::Kind::kBinary && after.binary == Binary::kAdd && !pattern.pairs;
}
bool is_gated(const StreamPattern& pattern) {
  const Elementwise& after = *pattern.after;
  return after.kind == Elementwise::Kind::kGate && after.unary == Unary::kSilu && pattern.pairs && pattern.own_operand == 0;
}

// Whether the kernels have what the steps want.
bool is_common(const StreamPattern& pattern) {
  const Matrix& matrix = *pattern.matrix;
  const WeightFormat format = matrix.weights.format;
  if (format != WeightFormat::kF16 && format != WeightFormat::kQ8 && format != WeightFormat::kQ4) return false;
  if (pattern.half == nullptr || matrix.parts != 1 || matrix.rows.most > kStreamRows || matrix.selection.base != Address::kNone)
    return false;
  if (pattern.norm != nullptr &&
      (pattern.norm->centered || pattern.norm->bias.base != Address::kNone || pattern.norm->epsilon < kLeastEpsilon))
    return false;
  if (pattern.after == nullptr) return true;
  return pattern.norm != nullptr && is_gated(pattern) ? true : is_added(pattern);
}

class QuickLowering {
 public:
  QuickLowering(const StreamPattern& pattern, LaunchList& list) : pattern_(pattern), list_(list), matrix_(*pattern.matrix) {
    format_ = matrix_.weights.format;
    one_row_ = matrix_.rows.most == 1;
    fill();
  }

  bool add(bool wants_largest) {
    choose_kind();
    if (!kind_.has_value() || !divide()) return false;
    if (*kind_ == QuickKind::kSplit) {
      const Target& target = list_.target();
      launch_.parts = target.parts(static_cast<size_t>(launch_.n_tiles) * static_cast<size_t>(launch_.n_slices) * 64u << launch_.row_shift);
      launch_.tickets = target.tickets;
    }
    if (wants_largest) launch_.largest_out = list_.target().largest;
    constexpr const char* kNames[] = {"normed", "gated", "converted", "split"};
    const bool is_long = one_row_ && *kind_ != QuickKind::kSplit && padded(launch_.k) > kQuickColumnsOfShort * kQuickThreads;
    list_.add(fmt::format("quick_{}_{}_{}{}", format_name(format_), kNames[static_cast<size_t>(*kind_)], one_row_ ? 1 : kStreamRows,
                          is_long ? "_long" : ""),
              {blocks_}, kQuickThreads, static_cast<int>(shared_bytes_), launch_);
    if (wants_largest) list_.set_largest(LargestParts{pattern_.result(), pattern_.result_size(), launch_.largest_out, blocks_});
    return true;
  }

 private:
  void fill() {
    const Weights& weights = matrix_.weights;
    launch_.units = weights.units;
    launch_.k = weights.k, launch_.n = weights.n;
    launch_.n_tiles = ceil_div(weights.n, pattern_.pairs ? 32 : 16);
    launch_.n_slices = ceil_div(weights.k, kSliceColumns);
    launch_.units_per_tile = ceil_div(weights.k, format_ == WeightFormat::kQ4 ? 64 : 32);
    launch_.most = matrix_.rows.most;
    while ((1 << launch_.row_shift) < launch_.most) ++launch_.row_shift;
    launch_.n_rows = matrix_.rows.n_rows;
    launch_.weight_scales = weights.scales;
    launch_.bias = matrix_.bias;
    launch_.halves = stream_view(matrix_.x), launch_.x_scale = stream_view(matrix_.scale);
    launch_.out = stream_view(matrix_.out), launch_.residual = stream_view(matrix_.residual);
    launch_.x = stream_view(pattern_.half->x);
    if (const Norm* norm = pattern_.norm) {
      launch_.x = stream_view(norm->x), launch_.normed = stream_view(norm->out);
      launch_.gain = norm->weight.base;
      launch_.epsilon = norm->epsilon;
      launch_.inverse_k = 1.0f / static_cast<float>(weights.k);
    }
    if (const Elementwise* after = pattern_.after) {
      launch_.sum_out = stream_view(after->out);
      if (!pattern_.pairs) launch_.added = stream_view(after->in[1 - pattern_.own_operand]);
    }
  }

  // Slices that a warp multiplies, at most.
  int rounds(int n_items, int slices_per_item) const {
    return ceil_div(int64_t{ceil_div(n_items, list_.target().n_units)} * slices_per_item, kQuickWarps);
  }

  void choose_kind() {
    const int most_columns = one_row_ ? kQuickColumnsOfLong * kQuickThreads : kQuickQuads * 128;
    const bool fits = padded(launch_.k) <= most_columns;
    if (pattern_.norm != nullptr) {
      if (fits) kind_ = pattern_.pairs ? QuickKind::kGated : QuickKind::kNormed;
      return;
    }
    if (fits) kind_ = QuickKind::kConverted;
    const auto& largest = list_.largest();
    const bool is_known = largest.has_value() && is_same(largest->of, pattern_.half->x) && largest->n == launch_.k;
    constexpr int kSplitRounds = 2;  // what sums through memory cost
    const bool pays = !fits || rounds(launch_.n_tiles, launch_.n_slices) > rounds(launch_.n_tiles * launch_.n_slices, 1) + kSplitRounds;
    const bool can = is_known && launch_.n_slices > kSlicesAGroup && largest->n_parts <= kMostQuickBlocks;
    if (!can || !pays || launch_.n_tiles > list_.target().n_tickets) return;
    kind_ = QuickKind::kSplit;
    launch_.largest_in = largest->at, launch_.n_largest = largest->n_parts;
  }

  // Items of the last group, if it is a shorter one: blocks with fewer of the others get more of them.
  void deal_rest() {
    const int n_larger = launch_.n_larger_blocks, n_others = blocks_ - n_larger, rest = launch_.rest_slices;
    const int64_t all = int64_t{launch_.n_tiles} * launch_.n_slices;
    const int fair = ceil_div(all, blocks_), left = std::max(0, fair - launch_.items_per_block * kSlicesAGroup);
    int of_others = n_larger == 0 ? launch_.n_tiles : std::min(launch_.n_tiles, n_others * (left / rest));
    if (n_others == 0) of_others = 0;
    const int of_larger = launch_.n_tiles - of_others;
    if (n_others > 0) launch_.rest_of_others = of_others / n_others, launch_.n_more_of_others = of_others % n_others;
    if (n_larger > 0) launch_.rest_of_larger = of_larger / n_larger, launch_.n_more_of_larger = of_larger % n_larger;
  }

  // Deals items to blocks and places everything in shared memory.
  bool divide() {
    const Target& target = list_.target();
    const bool is_split = *kind_ == QuickKind::kSplit;
    const int size = is_split ? kSlicesAGroup : launch_.n_slices * (pattern_.pairs ? 2 : 1);
    const int n_items = launch_.n_tiles * (is_split ? launch_.n_slices / kSlicesAGroup : 1);
    blocks_ = std::min(n_items, target.n_units);
    launch_.items_per_block = n_items / blocks_, launch_.n_larger_blocks = n_items % blocks_;
    int most_items = ceil_div(n_items, blocks_), columns = padded(launch_.k);
    if (is_split) {
      const int most_groups = std::min((most_items - 1) / launch_.n_tiles + 2, launch_.n_slices / kSlicesAGroup);
      launch_.rest_slices = launch_.n_slices % kSlicesAGroup;
      if (launch_.rest_slices > 0) deal_rest();
      columns = most_groups * kGroupColumns + launch_.rest_slices * kSliceColumns;
      most_items += std::max(launch_.rest_of_larger, launch_.rest_of_others) + 1;
    }
    launch_.row_stride = columns + 8;
    const int64_t row_bytes = aligned(int64_t{launch_.most} * launch_.row_stride * 2);
    const int64_t gain_bytes = pattern_.norm != nullptr && !one_row_ ? aligned(int64_t{launch_.k} * 4) : 0;
    const int64_t item_bytes = int64_t{size} * 64 << launch_.row_shift;
    constexpr int64_t kMostSumBytes = 32 << 10;  // of a turn
    launch_.items_per_turn = is_split ? most_items : static_cast<int32_t>(std::clamp<int64_t>(kMostSumBytes / item_bytes, 1, most_items));
    const int64_t sum_bytes = aligned(item_bytes * launch_.items_per_turn * (launch_.items_per_turn < most_items ? 2 : 1));
    const int64_t rest = row_bytes + gain_bytes + sum_bytes, slot_bytes = int64_t{kQuickWarps} * stream_slice_bytes(format_);
    // As many slots as keep memory busy; the next launch's weights should find room as well.
    const int64_t wanted = ceil_div(int64_t{most_items} * size, kQuickWarps);
    const int64_t of_use = format_ == WeightFormat::kF16 ? 3 : 2;
    launch_.ring_slots = static_cast<int32_t>(std::min({wanted, of_use, (target.shared_bytes - rest) / slot_bytes}));
    if (launch_.ring_slots < 1) return false;
    launch_.rows_at = static_cast<int32_t>(launch_.ring_slots * slot_bytes);
    launch_.gains_at = static_cast<int32_t>(launch_.rows_at + row_bytes);
    launch_.sums_at = static_cast<int32_t>(launch_.gains_at + gain_bytes);
    shared_bytes_ = launch_.ring_slots * slot_bytes + rest;
    // A launch for all multiprocessors should not have two blocks on one while another one has none.
    constexpr int64_t kMoreThanHalf = 114 << 10;
    if (blocks_ == target.n_units)
      shared_bytes_ = std::clamp(kMoreThanHalf, shared_bytes_, std::max<int64_t>(shared_bytes_, target.shared_bytes));
    return true;
  }

  const StreamPattern& pattern_;
  LaunchList& list_;
  const Matrix& matrix_;
  WeightFormat format_ = WeightFormat::kF16;
  bool one_row_ = false;
  std::optional<QuickKind> kind_;
  QuickLaunch launch_{};
  int blocks_ = 1;
  int64_t shared_bytes_ = 0;
};

}  // namespace

size_t lower_quick(std::span<const Step> steps, size_t at, LaunchList& list) {
  if (!list.target().fuses_products || !list.target().quick_kernels) return 0;
  const std::optional<StreamPattern> pattern = find_stream_pattern(steps, at, true);
  if (!pattern.has_value() || !is_common(*pattern)) return 0;
  const size_t next = at + pattern->n_steps();
  const auto* half = next < steps.size() ? std::get_if<ToHalf>(&steps[next]) : nullptr;
  const bool wants_largest =
      half != nullptr && half->parts == 1 && is_same(half->x, pattern->result()) && half->k == pattern->result_size();
  return QuickLowering(*pattern, list).add(wants_largest) ? pattern->n_steps() : 0;
}

}  // namespace kvik::cuda
