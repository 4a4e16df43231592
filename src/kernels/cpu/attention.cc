#include "kernels/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/core.h>
#include <limits>

#include "kvik/error.h"

namespace kvik::cpu {
namespace {

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

constexpr int64_t kQueriesPerUnit = 32;  // that share one reading of a span from the nearest cache
constexpr int64_t kHeadsPerUnit = 4;     // of queries that have a KV head each
constexpr int64_t kMostSplitRows = 8;    // beyond, rows themselves are parallel work enough
constexpr int64_t kWorthAThread = 6000;  // multiplications: for less, waking a thread takes longer than its work

int64_t part_floats(const Attention& a) { return kPartHeader + a.layout.value_stride; }

struct Spans {
  int64_t begin, end;
};
Spans spans_of(const AttendRow& row) {
  if (row.first_key >= row.n_keys) return {0, 0};
  return {row.first_key / kSpanPositions, (row.n_keys + kSpanPositions - 1) / kSpanPositions};
}

void start_part(float* part, int64_t n_floats) {
  std::fill_n(part, n_floats, 0.0f);
  part[0] = -std::numeric_limits<float>::infinity();
}

// Queries that have a KV head each and no neighbor that reads the same: heads of one row together keep more sums under way than one.
bool reads_head_by_head(const Attention& a, std::span<const AttendRow> rows) {
  if (a.n_heads != a.layout.n_heads || a.kv_head_of != nullptr) return false;
  for (size_t r = 1; r < rows.size(); ++r)
    if (rows[r].pages == rows[r - 1].pages) return false;
  return true;
}

// One call of attend(): how its rows are cut into units of (neighboring rows of one sequence, KV head), or of (row, some KV heads).
class Call {
 public:
  Call(const CpuKernels& kernels, const Attention& attention, std::span<const AttendRow> rows, std::span<float> scratch, int n_threads)
      : kernels_(kernels), a_(attention), rows_(rows), scratch_(scratch) {
    const int64_t group = std::max<int64_t>(1, a_.n_heads / a_.layout.n_heads);
    rows_per_block_ = std::max<int64_t>(1, kQueriesPerUnit / group);
    for (const AttendRow& row : rows_) most_spans_ = std::max(most_spans_, spans_of(row).end - spans_of(row).begin);
    if (!reads_head_by_head(a_, rows_)) return;
    rows_per_block_ = 1;
    heads_per_unit_ = std::min<int64_t>(kHeadsPerUnit, a_.n_heads);
    while (heads_per_unit_ > 1 && n_units() < n_threads) heads_per_unit_ /= 2;
  }

  int64_t n_multiplications() const {
    int64_t n_keys = 0;
    for (const AttendRow& row : rows_) n_keys += row.n_keys - row.first_key;
    return n_keys * a_.n_heads * (a_.layout.key_dim + a_.layout.value_dim);
  }
  int64_t n_units() const { return n_blocks() * n_head_units(); }
  int64_t most_spans() const { return most_spans_; }

  // A whole unit by itself, span after span. Weights are rounded once the sum over all keys is known, so these go twice.
  void run_unit(int64_t unit) {
    for_batches(unit, [&](std::span<AttendQuery> queries, std::span<const Where> where, const KvPages& kv, Spans spans) {
      run_spans(queries, where, kv, spans);
      if (rounds_weights()) {
        for (size_t i = 0; i < queries.size(); ++i) set_total(queries[i], slot(where[i], 0, 2));
        run_spans(queries, where, kv, spans);
        for (const Where& w : where) slot(w, 0, 2)[1] = 1.0f;
      }
      for (const Where& w : where) finish(w, slot(w, 0, 2));
    });
  }

  // One span of a unit; the row's own spans only.
  void run_span(int64_t unit, int64_t span_index) {
    for_batches(unit, [&](std::span<AttendQuery> queries, std::span<const Where> where, const KvPages& kv, Spans spans) {
      const int64_t span = spans.begin + span_index;
      if (span >= spans.end) return;
      std::array<float*, kBatch> part;
      for (size_t i = 0; i < queries.size(); ++i) part[i] = slot(where[i], span_index, most_spans_);
      kernels_.attend(a_.layout, a_.rule, kv, span, queries.data(), static_cast<int64_t>(queries.size()), part.data());
    });
  }

  void merge_spans(int64_t row, int64_t head) {
    const Where where{row, head};
    const Spans spans = spans_of(rows_[static_cast<size_t>(row)]);
    float* merged = slot(where, 0, most_spans_);
    if (spans.begin == spans.end) start_part(merged, part_floats(a_));
    // The first part merged into nothing is itself.
    for (int64_t s = 1; s < spans.end - spans.begin; ++s) kernels_.merge(merged, slot(where, s, most_spans_), a_.layout.value_stride);
    finish(where, merged);
  }

  // Rows apart, so that a unit has one row; for run_span().
  void one_row_per_unit() { rows_per_block_ = 1; }
  bool rounds_weights() const { return a_.rule.n_weight_roundings > 0; }

 private:
  static constexpr size_t kBatch = 64;
  struct Where {
    int64_t row, head;
  };

  // All spans of these queries, merged into slot 0 of each.
  void run_spans(std::span<const AttendQuery> queries, std::span<const Where> where, const KvPages& kv, Spans spans) {
    std::array<float*, kBatch> merged, part;
    for (size_t i = 0; i < queries.size(); ++i) {
      merged[i] = slot(where[i], 0, 2);
      part[i] = slot(where[i], 1, 2);
      if (spans.begin >= spans.end) start_part(merged[i], part_floats(a_));
    }
    for (int64_t s = spans.begin; s < spans.end; ++s) {
      const bool is_first = s == spans.begin;
      const auto n = static_cast<int64_t>(queries.size());
      kernels_.attend(a_.layout, a_.rule, kv, s, queries.data(), n, is_first ? merged.data() : part.data());
      for (size_t i = 0; i < queries.size() && !is_first; ++i) kernels_.merge(merged[i], part[i], a_.layout.value_stride);
    }
  }
  // A query that sees nothing has a total of 0, and any weights.
  static void set_total(AttendQuery& query, const float* merged) {
    query.largest = merged[1] == 0.0f ? 0.0f : merged[0];
    query.total = merged[1] == 0.0f ? 1.0f : merged[1];
  }

  int64_t n_head_units() const { return (a_.layout.n_heads + heads_per_unit_ - 1) / heads_per_unit_; }
  int64_t n_blocks() const { return (static_cast<int64_t>(rows_.size()) + rows_per_block_ - 1) / rows_per_block_; }
  float* slot(const Where& w, int64_t i, int64_t n_slots) {
    return scratch_.data() + ((w.row * a_.n_heads + w.head) * n_slots + i) * part_floats(a_);
  }
  void finish(const Where& w, const float* part) {
    const float* sink = a_.rule.sinks != nullptr ? a_.rule.sinks + w.head : nullptr;
    kernels_.finish(part, sink, a_.layout.value_dim, rows_[static_cast<size_t>(w.row)].out + w.head * a_.layout.value_dim);
  }
  AttendQuery query(const Where& w) const {
    const AttendRow& row = rows_[static_cast<size_t>(w.row)];
    const float* bias = row.bias == nullptr ? nullptr : row.bias + w.head * row.bias_stride;
    return {row.q + w.head * a_.layout.key_dim, bias, row.first_key, row.n_keys, row.position, w.head};
  }

  // The queries of a unit, in batches that read the same pages: fn(queries, where, kv, spans that at least one of them sees).
  template <class Fn>
  void for_batches(int64_t unit, Fn fn) {
    if (heads_per_unit_ > 1) return for_heads(unit, fn);
    const int64_t kv_head = unit % a_.layout.n_heads, first = unit / a_.layout.n_heads * rows_per_block_;
    const int64_t last = std::min(first + rows_per_block_, static_cast<int64_t>(rows_.size()));
    std::array<AttendQuery, kBatch> queries;
    std::array<Where, kBatch> where;
    const bool neighbors = a_.kv_head_of == nullptr;  // the heads that share a KV head
    const int64_t group = a_.n_heads / a_.layout.n_heads;
    const int64_t first_head = neighbors ? kv_head * group : 0, end_head = neighbors ? first_head + group : a_.n_heads;
    size_t n = 0;
    Spans spans{std::numeric_limits<int64_t>::max(), 0};
    const std::byte* const* pages = nullptr;
    const auto flush = [&] {
      const KvPages kv{pages, a_.page_offset + kv_head * a_.layout.head_bytes};
      if (n > 0) fn(std::span<AttendQuery>(queries.data(), n), std::span<const Where>(where.data(), n), kv, spans);
      n = 0;
      spans = {std::numeric_limits<int64_t>::max(), 0};
    };
    for (int64_t r = first; r < last; ++r) {
      const AttendRow& row = rows_[static_cast<size_t>(r)];
      const Spans own = spans_of(row);
      for (int64_t h = first_head; h < end_head; ++h) {
        if (!neighbors && a_.kv_head_of[h] != kv_head) continue;
        if (n == kBatch || row.pages != pages) flush();
        pages = row.pages;
        queries[n] = query({r, h});
        where[n++] = {r, h};
        if (own.begin < own.end) spans = {std::min(spans.begin, own.begin), std::max(spans.end, own.end)};
      }
    }
    flush();
  }

  // The same of a unit that is some heads of one row.
  template <class Fn>
  void for_heads(int64_t unit, Fn fn) {
    const int64_t r = unit / n_head_units(), first = unit % n_head_units() * heads_per_unit_;
    const auto n = static_cast<size_t>(std::min(heads_per_unit_, a_.n_heads - first));
    std::array<AttendQuery, kHeadsPerUnit> queries;
    std::array<Where, kHeadsPerUnit> where;
    for (size_t i = 0; i < n; ++i) {
      where[i] = {r, first + static_cast<int64_t>(i)};
      queries[i] = query(where[i]);
    }
    const AttendRow& row = rows_[static_cast<size_t>(r)];
    const KvPages kv{row.pages, a_.page_offset + first * a_.layout.head_bytes, a_.layout.head_bytes};
    fn(std::span<AttendQuery>(queries.data(), n), std::span<const Where>(where.data(), n), kv, spans_of(row));
  }

  const CpuKernels& kernels_;
  const Attention& a_;
  std::span<const AttendRow> rows_;
  std::span<float> scratch_;
  int64_t rows_per_block_ = 1, heads_per_unit_ = 1;
  int64_t most_spans_ = 0;
};

}  // namespace

KvLayout kv_layout(KvFormat format, int64_t n_kv_heads, int64_t key_dim, int64_t value_dim) {
  constexpr int64_t kMost = 1 << 20;
  const bool sane = n_kv_heads >= 1 && key_dim >= 1 && value_dim >= 1 && n_kv_heads <= kMost && key_dim <= kMost && value_dim <= kMost;
  if (!sane) {
    throw Error(Code::kBadArgument, fmt::format("a cache of {} heads with keys of {} and values of {}; each must be from 1 to {}",
                                                n_kv_heads, key_dim, value_dim, kMost));
  }
  if (format == KvFormat::kQ8 && std::max(key_dim, value_dim) > kMostQuantizedDim) {
    throw Error(Code::kUnsupported, fmt::format("heads of {} values; a quantized cache takes up to {}, so use f16",
                                                std::max(key_dim, value_dim), kMostQuantizedDim));
  }
  KvLayout l{.format = format,
             .n_heads = static_cast<int32_t>(n_kv_heads),
             .key_dim = static_cast<int32_t>(key_dim),
             .value_dim = static_cast<int32_t>(value_dim),
             .value_stride = static_cast<int32_t>(round_up(value_dim, 16))};
  const int64_t size = format == KvFormat::kF32 ? 4 : format == KvFormat::kF16 ? 2 : 1;
  const int64_t scales = format == KvFormat::kQ8 ? kPagePositions * int64_t{4} : 0;
  l.key_scales_offset = kPagePositions * size * (format == KvFormat::kQ8 ? round_up(key_dim, 4) : key_dim);
  l.values_offset = l.key_scales_offset + scales;
  l.value_scales_offset = l.values_offset + kPagePositions * size * l.value_stride;
  l.head_bytes = round_up(l.value_scales_offset + scales, 64);
  l.page_bytes = l.head_bytes * n_kv_heads;
  return l;
}

void clear_positions(const KvLayout& l, std::byte* page, int first) {
  const auto n_cleared = static_cast<size_t>(kPagePositions - first);
  const size_t size = l.format == KvFormat::kF32 ? 4 : l.format == KvFormat::kF16 ? 2 : 1;
  const bool quantized = l.format == KvFormat::kQ8;
  const size_t together = quantized ? 4 : size;  // bytes of one position that stand together in a panel of keys
  const auto n_panels = static_cast<size_t>(quantized ? (l.key_dim + 3) / 4 : l.key_dim);
  for (int32_t head = 0; head < l.n_heads; ++head) {
    std::byte* at = page + head * l.head_bytes;
    const auto clear = [&](size_t offset, size_t position_bytes) {
      std::memset(at + offset + static_cast<size_t>(first) * position_bytes, 0, n_cleared * position_bytes);
    };
    for (size_t panel = 0; panel < n_panels; ++panel) clear(panel * kPagePositions * together, together);
    clear(static_cast<size_t>(l.values_offset), static_cast<size_t>(l.value_stride) * size);
    if (!quantized) continue;
    clear(static_cast<size_t>(l.key_scales_offset), sizeof(float));
    clear(static_cast<size_t>(l.value_scales_offset), sizeof(float));
  }
}

void copy_positions(const KvLayout& l, const std::byte* from, std::byte* to, int n) {
  constexpr size_t kLine = 64;
  const auto n_positions = static_cast<size_t>(n);
  const size_t size = l.format == KvFormat::kF32 ? 4 : l.format == KvFormat::kF16 ? 2 : 1;
  const bool quantized = l.format == KvFormat::kQ8;
  const size_t together = quantized ? 4 : size, step = kPagePositions * together;  // see clear_positions()
  const auto n_panels = static_cast<size_t>(quantized ? (l.key_dim + 3) / 4 : l.key_dim);
  const size_t n_lines = (n_positions * together + kLine - 1) / kLine;  // of each dimension of the keys
  for (int32_t head = 0; head < l.n_heads; ++head, from += l.head_bytes, to += l.head_bytes) {
    if (n_lines * kLine == step) {
      std::memcpy(to, from, n_panels * step);
    } else {
      for (size_t at = 0; at < n_panels * step; at += step)
        for (size_t line = 0; line < n_lines; ++line) std::memcpy(to + at + line * kLine, from + at + line * kLine, kLine);
    }
    std::memcpy(to + l.values_offset, from + l.values_offset, n_positions * static_cast<size_t>(l.value_stride) * size);
    if (!quantized) continue;
    std::memcpy(to + l.key_scales_offset, from + l.key_scales_offset, n_positions * sizeof(float));
    std::memcpy(to + l.value_scales_offset, from + l.value_scales_offset, n_positions * sizeof(float));
  }
}

int64_t attend_scratch_floats(const Attention& attention, int64_t n_rows, int64_t n_keys) {
  const int64_t n_spans = (n_keys + kSpanPositions - 1) / kSpanPositions + 1;  // a window may begin inside a span
  return n_rows * attention.n_heads * part_floats(attention) * (n_rows <= kMostSplitRows ? std::max<int64_t>(2, n_spans) : 2);
}

void attend(ThreadPool& pool, const CpuKernels& kernels, const Attention& attention, std::span<const AttendRow> rows,
            std::span<float> scratch) {
  Call call(kernels, attention, rows, scratch, pool.n_threads());
  const auto n_rows = static_cast<int64_t>(rows.size());
  if (call.n_multiplications() < kWorthAThread * pool.n_threads()) {
    for (int64_t unit = 0; unit < call.n_units(); ++unit) call.run_unit(unit);
    return;
  }
  const bool split = !call.rounds_weights() && pool.n_threads() > 1 && n_rows <= kMostSplitRows && call.most_spans() > 1 &&
                     call.n_units() < int64_t{4} * pool.n_threads();
  if (!split) return pool.for_each(call.n_units(), [&](int64_t unit) { call.run_unit(unit); });
  call.one_row_per_unit();
  pool.for_each(call.n_units() * call.most_spans(),
                [&](int64_t item) { call.run_span(item / call.most_spans(), item % call.most_spans()); });
  pool.for_each(n_rows * attention.n_heads, [&](int64_t i) { call.merge_spans(i / attention.n_heads, i % attention.n_heads); });
}

}  // namespace kvik::cpu
