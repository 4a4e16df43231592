#include "backend/native/attention/key_value_layout.h"

#include <fmt/format.h>
#include <map>
#include <utility>

#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;
using Indices = std::vector<int32_t>;

Expected<ProductMap> row_product(const Labels& labels, const Node& node) {
  return product_map(node, row_dims(labels[node.inputs.at(0)].axes), row_dims(labels[node.inputs.at(1)].axes));
}

bool counts_up(const Indices& map) {
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

Indices part(const Indices& all, int64_t which, int64_t size) {
  const auto from = all.begin() + which * size;
  return {from, from + size};
}

// The positions of each head's value elements in operand and result: an element of the result belongs to the head whose weights produce it.
struct Values {
  Indices v;        // [n_heads][value_dim]
  Indices out_map;  // as Attend's
  int64_t value_dim = 0;
};

Expected<Values> values_of(const Region& region, const ProductMap& product) {
  const Node& node = *region.weights_values;
  if (product.n_inner != 1) return refuse(node, "it sums over more than the keys");
  if (product.scale != 1) return refuse(node, "it scales the product of weights and values");
  const Indices& weight_of = region.weights_input == 0 ? product.a : product.b;
  const Indices& value_of = region.weights_input == 0 ? product.b : product.a;
  std::vector<Indices> elements(static_cast<size_t>(region.n_heads));
  Values values;
  values.value_dim = product.n_results / region.n_heads;
  for (size_t i = 0; i < weight_of.size(); ++i) {
    Indices& head = elements[static_cast<size_t>(weight_of[i])];
    values.out_map.push_back(static_cast<int32_t>(weight_of[i] * values.value_dim + static_cast<int64_t>(head.size())));
    head.push_back(value_of[i]);
  }
  for (const Indices& head : elements) {
    if (static_cast<int64_t>(head.size()) != values.value_dim) return refuse(node, "its heads have different numbers of elements");
    values.v.insert(values.v.end(), head.begin(), head.end());
  }
  if (counts_up(values.out_map)) values.out_map.clear();
  return values;
}

// Heads that read the same elements of keys and of values share one.
void share_heads(Attend& attend) {
  const Indices k = std::exchange(attend.k_map, {}), v = std::exchange(attend.v_map, {});
  std::map<std::pair<Indices, Indices>, int32_t> known;
  for (int64_t h = 0; h < attend.n_heads; ++h) {
    const auto pair = std::make_pair(part(k, h, attend.key_dim), part(v, h, attend.value_dim));
    const auto [found, is_new] = known.try_emplace(pair, static_cast<int32_t>(known.size()));
    attend.kv_head_of.push_back(found->second);
    if (!is_new) continue;
    attend.k_map.insert(attend.k_map.end(), pair.first.begin(), pair.first.end());
    attend.v_map.insert(attend.v_map.end(), pair.second.begin(), pair.second.end());
  }
  attend.n_kv_heads = static_cast<int64_t>(known.size());
  const int64_t n_sharing = attend.n_heads / attend.n_kv_heads;
  bool neighbors = attend.n_heads % attend.n_kv_heads == 0;
  for (int64_t h = 0; neighbors && h < attend.n_heads; ++h) neighbors = attend.kv_head_of[static_cast<size_t>(h)] == h / n_sharing;
  if (neighbors) attend.kv_head_of.clear();
}

void read_from(const AttentionContext& context, ValueId& operand, Indices& map, float* scale) {
  const SourceMap source = smallest_source(context, operand, scale != nullptr);
  operand = source.value;
  if (scale != nullptr) *scale *= source.scale;
  for (int32_t& index : map) index = source.map[static_cast<size_t>(index)];
}

void drop_identity(const Labels& labels, ValueId operand, Indices& map) {
  if (static_cast<int64_t>(map.size()) == row_elements(labels[operand].axes) && counts_up(map)) map.clear();
}

}  // namespace

Expected<> set_layout(const Labels& labels, const Region& region, Attend& attend) {
  KVIK_TRY(const ProductMap scores, row_product(labels, *region.query_key));
  if (scores.n_results != region.n_heads) return refuse(*region.query_key, "its rows do not produce one score per head");
  KVIK_TRY(const ProductMap weighed, row_product(labels, *region.weights_values));
  KVIK_TRY(const Values values, values_of(region, weighed));
  attend.n_heads = attend.n_kv_heads = region.n_heads;
  attend.key_dim = scores.n_inner;
  attend.value_dim = values.value_dim;
  attend.scale *= scores.scale;
  attend.q_map = region.query_input == 0 ? scores.a : scores.b;
  attend.k_map = region.query_input == 0 ? scores.b : scores.a;
  attend.v_map = values.v;
  attend.out_map = values.out_map;
  return {};
}

void read_from_sources(const AttentionContext& context, FoundAttention& found) {
  Attend& attend = found.attend;
  read_from(context, found.operands.q, attend.q_map, &attend.scale);
  read_from(context, found.operands.k, attend.k_map, &attend.scale);
  read_from(context, found.operands.v, attend.v_map, nullptr);
  share_heads(attend);
  drop_identity(context.labels, found.operands.q, attend.q_map);
  drop_identity(context.labels, found.operands.k, attend.k_map);
  drop_identity(context.labels, found.operands.v, attend.v_map);
}

}  // namespace kvik::native
