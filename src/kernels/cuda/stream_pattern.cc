#include "kernels/cuda/stream_pattern.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/memory_range.h"

namespace kvik::cuda {
namespace {

using namespace device;

template <class T>
const T* step_at(std::span<const Step> steps, size_t at) {
  return at < steps.size() ? std::get_if<T>(&steps[at]) : nullptr;
}

bool is_constant(const View& view) { return view.base == Address::kNone || (view.stride == 0 && !view.by_position); }

// Rows of 16-byte pieces.
bool is_whole(const View& view, int64_t n) {
  return !view.by_position && static_cast<uint64_t>(view.base) % 16 == 0 && view.stride % 16 == 0 && n % 4 == 0;
}

bool norms_for(const Norm& norm, const ToHalf& half) {
  return is_same(norm.rows, half.rows) && norm.selection.base == Address::kNone && norm.groups == 1 && norm.n == half.k &&
         is_same(norm.out, half.x) && is_whole(norm.x, norm.n) && is_constant(norm.weight) && is_constant(norm.bias) &&
         is_whole(norm.weight, norm.n) && is_whole(norm.bias, norm.n) && is_whole(norm.out, norm.n);
}

bool converts_for(const ToHalf& half, const Matrix& matrix) {
  return is_same(half.rows, matrix.rows) && half.selection.base == Address::kNone && matrix.selection.base == Address::kNone &&
         half.parts == 1 && matrix.parts == 1 && half.planes == 1 && half.k == matrix.weights.k &&
         half.padded_k == (half.k + 63) / 64 * 64 && is_same(half.out, matrix.x) && is_same(half.scale, matrix.scale) &&
         is_whole(half.x, half.k) && !half.out.by_position && half.out.stride % 8 == 0 && static_cast<uint64_t>(half.out.base) % 8 == 0;
}

// Whether `after` is of the product's results, one by one.
void add_after(const Elementwise& after, StreamPattern& pattern) {
  const Matrix& matrix = *pattern.matrix;
  const bool two = has_two_operands(after), one = after.kind == Elementwise::Kind::kUnary || after.kind == Elementwise::Kind::kClip;
  if (!is_same(after.rows, matrix.rows) || after.selection.base != Address::kNone || matrix.selection.base != Address::kNone ||
      matrix.parts != 1 || !(one || two) || after.spread[0] != Spread::kAll || (two && after.spread[1] != Spread::kAll) ||
      after.out.by_position)
    return;
  const int64_t n = matrix.weights.n, most = matrix.rows.most;
  const MemoryRange product = range_of(matrix.out, most, n * 4), result = range_of(after.out, most, after.n * 4);
  if (product.overlaps(result)) return;
  View second = matrix.out;
  second.base = Address{static_cast<uint64_t>(second.base) + static_cast<uint64_t>(after.n) * 4};
  for (int own = 0; own < (two ? 2 : 1); ++own) {
    const View& other = after.in[1 - own];
    if (!is_same(after.in[own], matrix.out)) continue;
    if (two && after.n * 2 == n && after.n % 16 == 0 && is_same(other, second)) {
      pattern.pairs = true;
    } else if (after.n != n) {
      continue;
    } else if (two) {
      const MemoryRange there = range_of(other, most, n * 4);
      if (other.by_position || there.overlaps(product) || (there.overlaps(result) && !is_same(other, after.out))) continue;
    }
    pattern.after = &after;
    pattern.own_operand = own;
    return;
  }
}

// Blocks write results while others still read rows: nothing that is written may be read by another block.
bool blocks_are_independent(const StreamPattern& pattern) {
  const Matrix& matrix = *pattern.matrix;
  const int64_t most = matrix.rows.most, n = matrix.weights.n;
  if (pattern.half == nullptr) return true;
  const ToHalf& half = *pattern.half;
  std::vector<MemoryRange> early = {range_of(half.out, most, half.padded_k * 2), range_of(half.scale, most, 4)};
  if (pattern.norm != nullptr) early.push_back(range_of(pattern.norm->out, most, pattern.norm->n * 4));
  std::vector<MemoryRange> late = {range_of(matrix.out, most, n * 4)}, late_reads;
  if (matrix.residual.base != Address::kNone) late_reads.push_back(range_of(matrix.residual, most, n * 4));
  if (pattern.after != nullptr) {
    late.push_back(range_of(pattern.after->out, most, pattern.after->n * 4));
    if (!pattern.pairs && has_two_operands(*pattern.after))
      late_reads.push_back(range_of(pattern.after->in[1 - pattern.own_operand], most, n * 4));
  }
  const View& x = pattern.norm != nullptr ? pattern.norm->x : half.x;
  const MemoryRange read = range_of(x, most, half.k * 4);
  const auto hits = [](const MemoryRange& range, const std::vector<MemoryRange>& others) {
    return std::ranges::any_of(others, [&](const MemoryRange& other) { return range.overlaps(other); });
  };
  return !hits(read, early) && !hits(read, late) &&
         std::ranges::none_of(early, [&](const MemoryRange& range) { return hits(range, late) || hits(range, late_reads); });
}

}  // namespace

bool has_two_operands(const Elementwise& step) { return step.kind == Elementwise::Kind::kBinary || step.kind == Elementwise::Kind::kGate; }

std::optional<StreamPattern> find_stream_pattern(std::span<const Step> steps, size_t at, bool fuses) {
  StreamPattern pattern;
  if (!fuses) {
    pattern.matrix = step_at<Matrix>(steps, at);
    return pattern.matrix != nullptr ? std::optional(pattern) : std::nullopt;
  }
  size_t next = at;
  if ((pattern.norm = step_at<Norm>(steps, next)) != nullptr) ++next;
  if ((pattern.half = step_at<ToHalf>(steps, next)) != nullptr) ++next;
  pattern.matrix = step_at<Matrix>(steps, next);
  if (pattern.matrix == nullptr || (pattern.norm != nullptr && pattern.half == nullptr)) return std::nullopt;
  if (pattern.half != nullptr && !converts_for(*pattern.half, *pattern.matrix)) return std::nullopt;
  if (pattern.norm != nullptr && !norms_for(*pattern.norm, *pattern.half)) return std::nullopt;
  if (const auto* after = step_at<Elementwise>(steps, next + 1)) add_after(*after, pattern);
  if (blocks_are_independent(pattern)) return pattern;
  pattern.after = nullptr;
  pattern.pairs = false;
  return blocks_are_independent(pattern) ? std::optional(pattern) : std::nullopt;
}

}  // namespace kvik::cuda
