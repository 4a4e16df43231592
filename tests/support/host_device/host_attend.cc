#include <algorithm>
#include <vector>

#include "kernels/device/math.h"
#include "kernels/device/order.h"
#include "support/host_device/host_steps.h"
#include "support/host_device/tensor_core.h"
#include "tensor/small_float.h"

namespace kvik::testing_support {
namespace {

using namespace device;

constexpr float kLargestHalf = 65504.0f;

std::byte* page_of(const PageTable& table, int64_t slot, int64_t position) {
  return at(at<Address>(table.pages)[slot * table.n_pages + position / kPagePositions]);
}

// Finite numbers stay finite in a page: an infinite value times a weight of zero would spoil rows that do not see it.
void keep(const float* x, int64_t n, int64_t stride, int planes, int64_t slot, uint16_t* out) {
  for (int64_t i = 0; i < stride; ++i) {
    const float value = i < n ? clip_of(x[i], -kLargestHalf, kLargestHalf) : 0.0f;
    const Half high = value;
    out[slot * stride + i] = high.bits;
    if (planes == 2) out[(kPagePositions + slot) * stride + i] = Half((value - float{high}) * kPlaneStep).bits;
  }
}

// What one span, or several, adds for one row and head.
struct Part {
  float largest, sum;
  std::vector<float> values;
};

void merge(Part& into, const Part& part) {
  const float largest = part.largest > into.largest ? part.largest : into.largest;
  const float a = part_weight(into.largest, largest), b = part_weight(part.largest, largest);
  into.largest = largest;
  into.sum = fused(part.sum, b, into.sum * a);
  for (size_t i = 0; i < into.values.size(); ++i) into.values[i] = fused(part.values[i], b, into.values[i] * a);
}

// One query head of one row.
class Query {
 public:
  Query(const Attend& step, const RowAt& row, int32_t head, int64_t kv_head) : step_(step), row_(row.row), head_(head), kv_head_(kv_head) {
    const KvLayout& layout = step.layout;
    padded_ = (layout.key_dim + 15) / 16 * 16;
    q_.resize(static_cast<size_t>(padded_ * layout.planes));
    q_scale_ = to_half(row_of(step.q, row) + int64_t{head} * layout.key_dim, layout.key_dim, layout.planes, padded_, q_.data());
    const AttendRule& rule = step.rule;
    n_keys_ = rule.from_source ? row_.n_source : rule.causal ? row_.position + 1 : row_.n_keys;
    if (rule.window > 0 && !rule.from_source) first_key_ = std::max(0, row_.position + 1 - rule.window);
  }

  int64_t first_span() const { return first_key_ / kSpanPositions; }
  int64_t end_span() const { return (n_keys_ + kSpanPositions - 1) / kSpanPositions; }

  Part span(int64_t index) const {
    const KvLayout& layout = step_.layout;
    const int planes = layout.planes;
    std::vector<float> scores(kSpanPositions, -infinity());
    Part part{-infinity(), 0.0f, std::vector<float>(static_cast<size_t>(layout.value_dim))};
    for (int64_t i = 0; i < kSpanPositions; ++i) {
      const int64_t key = index * kSpanPositions + i;
      if (key < first_key_ || key >= n_keys_) continue;
      const float s = score(key);
      scores[static_cast<size_t>(i)] = s;
      part.largest = s > part.largest ? s : part.largest;
    }
    const float base = part.largest == -infinity() ? 0.0f : part.largest;
    std::vector<uint16_t> weights(static_cast<size_t>(kSpanPositions * planes)), ones(kSpanPositions, Half(1.0f).bits);
    for (int64_t i = 0; i < kSpanPositions; ++i) {
      const int64_t key = index * kSpanPositions + i;
      if (key < first_key_ || key >= n_keys_) continue;
      const float p = exp_of(scores[static_cast<size_t>(i)] - base) * kWeightScale;
      const Half high = p;
      weights[static_cast<size_t>(i)] = high.bits;
      if (planes == 2) weights[static_cast<size_t>(kSpanPositions + i)] = Half((p - float{high}) * kPlaneStep).bits;
    }
    part.sum = tensor_core_chain(weights.data(), ones.data(), kSpanPositions);
    if (planes == 2) part.sum += tensor_core_chain(weights.data() + kSpanPositions, ones.data(), kSpanPositions) * (1.0f / kPlaneStep);
    for (int64_t d = 0; d < layout.value_dim; ++d) part.values[static_cast<size_t>(d)] = weighted(weights, index, d);
    return part;
  }

 private:
  const uint16_t* kept(int64_t key, int plane, bool value) const {
    const KvLayout& layout = step_.layout;
    const int64_t slot = step_.rule.from_source ? row_.source_slot : row_.slot, stride = value ? layout.value_stride : layout.key_stride;
    const std::byte* head =
        page_of(step_.pages, slot, key) + step_.page_offset + kv_head_ * layout.head_bytes + (value ? layout.values_offset : 0);
    return reinterpret_cast<const uint16_t*>(head) + (plane * kPagePositions + key % kPagePositions) * stride;
  }

  float score(int64_t key) const {
    const KvLayout& layout = step_.layout;
    std::vector<uint16_t> k(static_cast<size_t>(padded_ * layout.planes));
    for (int plane = 0; plane < layout.planes; ++plane) std::copy_n(kept(key, plane, false), layout.key_dim, k.data() + plane * padded_);
    float s = tensor_core_chain(q_.data(), k.data(), padded_);
    if (layout.planes == 2) {
      const float high_low = tensor_core_chain(q_.data(), k.data() + padded_, padded_);
      const float low_high = tensor_core_chain(q_.data() + padded_, k.data(), padded_);
      s = s + (high_low + low_high) * (1.0f / kPlaneStep);
    }
    return ruled(s * q_scale_, key);
  }

  float ruled(float s, int64_t key) const {
    const AttendRule& rule = step_.rule;
    s = s * rule.scale;
    for (int32_t i = 0; i < rule.n_roundings; ++i) s = rounded_of(s, at<Rounding>(rule.roundings)[i]);
    if (rule.soft_cap != 0.0f) s = tanh_of(s / rule.soft_cap) * rule.soft_cap;
    if (rule.slopes != Address::kNone) s = fused(at<float>(rule.slopes)[head_], static_cast<float>(key - row_.position), s);
    if (rule.distance_bias != Address::kNone) {
      const int64_t distance = row_.position - key - rule.first_distance;
      s = s + at<float>(rule.distance_bias)[head_ * rule.n_distances + std::clamp<int64_t>(distance, 0, rule.n_distances - 1)];
    }
    return s;
  }

  float weighted(const std::vector<uint16_t>& weights, int64_t index, int64_t d) const {
    const int planes = step_.layout.planes;
    std::vector<uint16_t> v(static_cast<size_t>(kSpanPositions * planes));
    for (int plane = 0; plane < planes; ++plane) {
      for (int64_t i = 0; i < kSpanPositions; ++i) {
        const int64_t key = index * kSpanPositions + i;
        if (key >= first_key_ && key < n_keys_) v[static_cast<size_t>(plane * kSpanPositions + i)] = kept(key, plane, true)[d];
      }
    }
    const float main = tensor_core_chain(weights.data(), v.data(), kSpanPositions);
    if (planes == 1) return main;
    const float high_low = tensor_core_chain(weights.data(), v.data() + kSpanPositions, kSpanPositions);
    const float low_high = tensor_core_chain(weights.data() + kSpanPositions, v.data(), kSpanPositions);
    return main + (high_low + low_high) * (1.0f / kPlaneStep);
  }

  const Attend& step_;
  const Row& row_;
  int64_t head_, kv_head_, padded_, first_key_ = 0, n_keys_ = 0;
  std::vector<uint16_t> q_;
  float q_scale_ = 1.0f;
};

float* part_at(const AttendParts& parts, int64_t row, int64_t n_heads, int64_t head, int64_t index, int64_t value_dim) {
  return at<float>(parts.parts) + ((row * n_heads + head) * parts.n_parts + index) * (2 + value_dim);
}

}  // namespace

void execute(const Append& step) {
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    const KvLayout& layout = step.layout;
    const auto append_to = [&](int64_t slot) {
      const int64_t in_page = row.row.position % kPagePositions;
      for (int64_t head = 0; head < layout.n_heads; ++head) {
        std::byte* to = page_of(step.pages, slot, row.row.position) + step.page_offset + head * layout.head_bytes;
        keep(row_of(step.k, row) + head * layout.key_dim, layout.key_dim, layout.key_stride, layout.planes, in_page,
             reinterpret_cast<uint16_t*>(to));
        keep(row_of(step.v, row) + head * layout.value_dim, layout.value_dim, layout.value_stride, layout.planes, in_page,
             reinterpret_cast<uint16_t*>(to + layout.values_offset));
      }
    };
    append_to(step.from_source ? row.row.source_slot : row.row.slot);
    for (int32_t i = 0; i < row.row.n_branches; ++i) append_to(at<int32_t>(step.branches)[row.row.first_branch + i]);
  });
}

void execute(const Attend& step) {
  const int32_t value_dim = step.layout.value_dim;
  each_row(step.rows, {}, [&](const RowAt& row) {
    for (int32_t kv_head = 0; kv_head < step.layout.n_heads; ++kv_head) {
      for (int32_t i = at<int32_t>(step.first_heads)[kv_head]; i < at<int32_t>(step.first_heads)[kv_head + 1]; ++i) {
        const int32_t head = at<int32_t>(step.heads)[i];
        const Query query(step, row, head, kv_head);
        const int64_t a_part = step.parts.spans_a_part;
        for (int64_t span = query.first_span(); span < query.end_span();) {
          const int64_t index = span / a_part;
          Part part = query.span(span);
          for (++span; span < query.end_span() && span / a_part == index; ++span) merge(part, query.span(span));
          float* out = part_at(step.parts, row.index, step.n_heads, head, index, value_dim);
          out[0] = part.largest;
          out[1] = part.sum;
          std::copy(part.values.begin(), part.values.end(), out + 2);
        }
      }
    }
  });
}

void execute(const MergeSpans& step) {
  const AttendRule& rule = step.rule;
  each_row(step.rows, {}, [&](const RowAt& row) {
    const int64_t position = row.row.position;
    const int64_t n_keys = rule.from_source ? row.row.n_source : rule.causal ? position + 1 : row.row.n_keys;
    const int64_t first_key = rule.window > 0 && !rule.from_source ? std::max<int64_t>(0, position + 1 - rule.window) : 0;
    const int64_t positions = int64_t{kSpanPositions} * step.parts.spans_a_part, per_group = kSpanGroupPositions / positions;
    for (int32_t head = 0; head < step.n_heads; ++head) {
      const auto read = [&](int64_t index) {
        const float* from = part_at(step.parts, row.index, step.n_heads, head, index, step.value_dim);
        return Part{from[0], from[1], std::vector<float>(from + 2, from + 2 + step.value_dim)};
      };
      Part whole{-infinity(), 0.0f, std::vector<float>(static_cast<size_t>(step.value_dim))};
      const int64_t end = (n_keys + positions - 1) / positions;
      bool first = true;
      for (int64_t index = first_key / positions; index < end;) {
        const int64_t group = index / per_group;
        Part part = read(index);
        for (++index; index < end && index / per_group == group; ++index) merge(part, read(index));
        if (first) whole = part;
        if (!first) merge(whole, part);
        first = false;
      }
      float total = whole.sum, factor = 1.0f;
      if (rule.sinks != Address::kNone) {
        const float sink = at<float>(rule.sinks)[head], largest = sink > whole.largest ? sink : whole.largest;
        factor = part_weight(whole.largest, largest);
        total = fused(total, factor, kWeightScale * part_weight(sink, largest));
      }
      if (total == 0.0f) total = 1.0f;
      for (int32_t d = 0; d < step.value_dim; ++d)
        row_of(step.out, row)[head * step.value_dim + d] = whole.values[static_cast<size_t>(d)] * factor / total;
    }
  });
}

}  // namespace kvik::testing_support
