#include "backend/native/execute/device/call_shape.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "backend/native/execute/device/device_output.h"
#include "kernels/device/order.h"

namespace kvik::native {
namespace {

constexpr int32_t kSharingRows = 64;  // of a prompt that read keys together
constexpr int64_t kManySpans = 4096;  // rows times spans, from which on parts are of eight spans

int32_t bucket(size_t n_rows) {
  constexpr int32_t kBuckets[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256};
  const auto n = static_cast<int32_t>(n_rows);
  const auto* found = std::ranges::lower_bound(kBuckets, n);
  return found != std::end(kBuckets) ? *found : (n + 255) / 256 * 256;
}

// Spans of attention that steps are made for: few different numbers, since each has recordings of its own, but none far above `n`, since a
// block is launched for each.
int64_t spans_bucket(int64_t n) {
  if (n <= 2) return n;
  if (n <= 8) return (n + 1) / 2 * 2;
  const int64_t groups = (n + 7) / 8;
  const auto step = static_cast<int64_t>(std::max<uint64_t>(1, std::bit_floor(static_cast<uint64_t>(groups)) / 4));
  return (groups + step - 1) / step * step * 8;
}

// Each row is of a sequence of its own. A branch sees the row that it follows.
bool is_apart(const RunCall& call) {
  if (!call.branches.empty() || call.rows.size() > call.sequences.size()) return false;
  std::vector<char> has_row(call.sequences.size());
  return std::ranges::all_of(call.rows,
                             [&](const RunRow& row) { return std::exchange(has_row[static_cast<size_t>(row.sequence)], 1) == 0; });
}

}  // namespace

CallShape shape_of(const RunCall& call, bool source) {
  CallShape shape;
  shape.source = source;
  shape.rows = bucket(call.rows.size());
  shape.all_wanted = !source && call.wanted.size() == call.rows.size();
  if (!source && !call.wanted.empty()) shape.tail_rows = bucket(call.wanted.size());
  if (call.kept != nullptr) {
    for (const int32_t n : call.n_candidates) shape.top = std::max(shape.top, choice_room(n).top);
    shape.output_place = static_cast<const DeviceOutput&>(*call.kept).place();
  }
  int64_t most_keys = 1;
  for (size_t i = 0; i < call.rows.size(); ++i) {
    const RunRow& row = call.rows[i];
    const RunSequence& sequence = call.sequences[static_cast<size_t>(row.sequence)];
    most_keys = std::max({most_keys, row.position + 1, sequence.n_keys, sequence.n_source});
    if (i > 0 && call.rows[i - 1].sequence == row.sequence) shape.group_rows = kSharingRows;
  }
  shape.apart = !source && is_apart(call);
  const int64_t spans = spans_bucket((most_keys + device::kSpanPositions - 1) / device::kSpanPositions);
  constexpr int32_t kSpans = device::kSpanGroupPositions / device::kSpanPositions;
  shape.spans_a_part = shape.rows <= 64 && shape.rows * spans <= kManySpans ? 1 : kSpans;
  shape.n_parts = static_cast<int32_t>((spans + shape.spans_a_part - 1) / shape.spans_a_part);
  return shape;
}

}  // namespace kvik::native
