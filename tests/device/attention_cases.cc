#include "device/scenario.h"
#include "kernels/device/order.h"

namespace kvik::testing_support {

using namespace device;

namespace {

struct AttentionShape {
  std::string name;
  int planes = 1, n_heads = 4, n_kv_heads = 2, key_dim = 64, value_dim = 64, spans_a_part = 1;
  std::vector<int> starts = {5};  // of sequences, each with `rows` rows from there on
  int rows = 1, group_rows = 1, window = 0;
  bool causal = true, biases = false, from_source = false;
};

void build(Scenario& s, const AttentionShape& shape) {
  std::vector<int> positions;
  for (const int start : shape.starts)
    for (int i = 0; i < shape.rows; ++i) positions.push_back(start + i);
  const auto n = static_cast<int>(positions.size()), n_sequences = static_cast<int>(shape.starts.size());
  s.rows(n, n, positions);
  std::vector<Row> list = s.row_list();
  std::vector<RowGroup> groups;
  int most_keys = 0;
  for (int i = 0; i < n; ++i) {
    Row& row = list[static_cast<size_t>(i)];
    row.slot = row.source_slot = i / shape.rows;
    row.n_keys = row.n_source = shape.starts[static_cast<size_t>(i / shape.rows)] + shape.rows;
    most_keys = std::max(most_keys, row.n_keys);
    if (i % shape.rows % shape.group_rows == 0) groups.push_back({i, 0});
    ++groups.back().n_rows;
  }
  const Rows rows{s.put(list), s.put(std::vector<int32_t>{n}), n};
  const KvLayout layout = kv_layout(shape.planes, shape.n_kv_heads, shape.key_dim, shape.value_dim);
  const int64_t n_pages = (most_keys + kPagePositions - 1) / kPagePositions, page_offset = 256;
  std::vector<Address> pages;
  for (int64_t i = 0; i < n_sequences * n_pages; ++i) pages.push_back(s.room(page_offset + layout.page_bytes));
  const PageTable table{s.put(pages), n_pages};

  // Every position is appended first, then the rows attend.
  std::vector<int> all;
  std::vector<Row> kept;
  for (int sequence = 0; sequence < n_sequences; ++sequence)
    for (int position = 0; position < shape.starts[static_cast<size_t>(sequence)] + shape.rows; ++position)
      kept.push_back({.position = position, .slot = sequence, .source_slot = sequence});
  const auto n_kept = static_cast<int>(kept.size());
  const Rows kept_rows{s.put(kept), s.put(std::vector<int32_t>{n_kept}), n_kept};
  s.add(Append{.rows = kept_rows,
               .k = s.values(n_kept, shape.n_kv_heads * shape.key_dim),
               .v = s.values(n_kept, shape.n_kv_heads * shape.value_dim),
               .pages = table,
               .from_source = shape.from_source,
               .layout = layout,
               .page_offset = page_offset});

  Attend attend{.rows = rows,
                .groups = {s.put(groups), s.put(std::vector<int32_t>{static_cast<int32_t>(groups.size())}), n, shape.group_rows}};
  attend.q = s.values(n, shape.n_heads * shape.key_dim);
  attend.pages = table;
  attend.layout = layout;
  attend.page_offset = page_offset;
  attend.n_heads = shape.n_heads;
  attend.most_heads = shape.n_heads / shape.n_kv_heads;
  std::vector<int32_t> heads, first_heads;
  for (int i = 0; i < shape.n_heads; ++i) {
    if (i % attend.most_heads == 0) first_heads.push_back(i);
    heads.push_back(shape.n_heads - 1 - i);
  }
  first_heads.push_back(shape.n_heads);
  attend.heads = s.put(heads);
  attend.first_heads = s.put(first_heads);
  AttendRule& rule = attend.rule;
  rule.scale = 0.125f;
  rule.causal = shape.causal;
  rule.window = shape.window;
  rule.from_source = shape.from_source;
  if (shape.biases) {
    rule.soft_cap = 20.0f;
    rule.slopes = s.put(s.floats(shape.n_heads, 0.01f));
    rule.distance_bias = s.put(s.floats(shape.n_heads * 50));
    rule.n_distances = 50;
    rule.first_distance = -3;
    rule.sinks = s.put(s.floats(shape.n_heads));
    rule.roundings = s.put(std::vector<Rounding>{{0.01f, -1000.0f, 1000.0f, 0.01f}});
    rule.n_roundings = 1;
  }
  s.add_attention(attend, n, shape.spans_a_part, most_keys);
}

}  // namespace

std::vector<ScenarioCase> attention_cases() {
  const std::vector<AttentionShape> shapes = {
      {.name = "one row"},
      {.name = "one row, heads of 128, 300 keys", .n_heads = 6, .n_kv_heads = 1, .key_dim = 128, .value_dim = 128, .starts = {300}},
      {.name = "odd heads", .n_heads = 3, .n_kv_heads = 3, .key_dim = 20, .value_dim = 9, .starts = {140, 3, 77}},
      {.name = "f32", .planes = 2, .starts = {200, 31}},
      {.name = "f32, odd heads",
       .planes = 2,
       .n_heads = 2,
       .n_kv_heads = 1,
       .key_dim = 12,
       .value_dim = 36,
       .starts = {150},
       .rows = 5,
       .group_rows = 4},
      {.name = "prompt", .starts = {0, 100}, .rows = 40, .group_rows = 16},
      {.name = "prompt, heads of 128",
       .n_heads = 6,
       .n_kv_heads = 1,
       .key_dim = 128,
       .value_dim = 100,
       .starts = {0, 450},
       .rows = 70,
       .group_rows = 64},
      {.name = "prompt row by row", .starts = {0, 100}, .rows = 40, .group_rows = 1},
      {.name = "groups of spans", .spans_a_part = 8, .starts = {1100}, .rows = 20, .group_rows = 8},
      {.name = "spans of many groups", .n_heads = 2, .n_kv_heads = 1, .key_dim = 32, .value_dim = 32, .starts = {2500, 1023}},
      {.name = "window", .starts = {400, 10}, .rows = 6, .group_rows = 3, .window = 150},
      {.name = "window by groups of spans", .spans_a_part = 8, .starts = {1400}, .rows = 6, .group_rows = 6, .window = 300},
      {.name = "all keys", .starts = {0, 90}, .rows = 50, .group_rows = 16, .causal = false},
      {.name = "biases", .starts = {260, 4}, .rows = 3, .group_rows = 2, .biases = true},
      {.name = "source", .starts = {130}, .rows = 3, .group_rows = 3, .causal = false, .from_source = true},
      {.name = "large heads", .n_heads = 2, .n_kv_heads = 1, .key_dim = 512, .value_dim = 512, .starts = {130}, .rows = 2, .group_rows = 2},
      {.name = "many queries", .n_heads = 16, .n_kv_heads = 1, .starts = {129}, .rows = 4, .group_rows = 4},
  };
  std::vector<ScenarioCase> cases;
  for (const AttentionShape& shape : shapes) cases.push_back({"attention " + shape.name, [shape](Scenario& s) { build(s, shape); }});
  return cases;
}

}  // namespace kvik::testing_support
