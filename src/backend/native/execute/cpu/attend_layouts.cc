#include "backend/native/execute/cpu/attend_layouts.h"

namespace kvik::native {

cpu::Attention cpu_attention(const AttentionSpec& attend, cpu::KvFormat format) {
  cpu::Attention a{.layout = cpu::kv_layout(format, attend.n_kv_heads, attend.key_dim, attend.value_dim)};
  a.rule.scale = attend.scale;
  a.rule.score_roundings = attend.score_roundings.data();
  a.rule.n_score_roundings = static_cast<int32_t>(attend.score_roundings.size());
  a.rule.weight_roundings = attend.weight_roundings.data();
  a.rule.n_weight_roundings = static_cast<int32_t>(attend.weight_roundings.size());
  a.rule.soft_cap = attend.soft_cap;
  if (!attend.slopes.empty()) a.rule.slopes = attend.slopes.data();
  if (!attend.distance_bias.empty()) {
    a.rule.distance_bias = attend.distance_bias.data();
    a.rule.n_distances = static_cast<int64_t>(attend.distance_bias.size()) / attend.n_heads;
    a.rule.first_distance = attend.first_distance;
  }
  if (!attend.sinks.empty()) a.rule.sinks = attend.sinks.data();
  a.n_heads = static_cast<int32_t>(attend.n_heads);
  if (!attend.kv_head_of.empty()) a.kv_head_of = attend.kv_head_of.data();
  return a;
}

AttendLayouts cache_layout(const Plan& plan, cpu::KvFormat format) {
  AttendLayouts layouts;
  for (const AttentionSpec& attend : plan.attends) {
    cpu::Attention a = cpu_attention(attend, format);
    int64_t& end = attend.from_source ? layouts.source_page_bytes : layouts.page_bytes;
    a.page_offset = end;
    end += a.layout.page_bytes;
    layouts.of_attend.push_back(a);
  }
  return layouts;
}

}  // namespace kvik::native
