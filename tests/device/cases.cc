#include <fmt/format.h>

#include "device/scenario.h"
#include "kernels/device/order.h"

namespace kvik::testing_support {

using namespace device;

namespace {

constexpr int kRowCounts[] = {1, 5, 17};

void add_elementwise(std::vector<ScenarioCase>& cases) {
  for (int op = 0; op < kUnaryCount; ++op) {
    cases.push_back(
        {fmt::format("unary {}", op), [op](Scenario& s) {
           const Rows rows = s.rows(3, 4);
           s.add(
               Elementwise{.rows = rows, .unary = static_cast<Unary>(op), .in = {s.values(4, 1500)}, .n = 1500, .out = s.output(4, 6000)});
           std::vector<float> wide = s.floats(4 * 900, 1.0f);
           for (size_t i = 0; i < wide.size(); ++i) wide[i] *= i % 7 == 0 ? 1e5f : i % 5 == 0 ? 1e-30f : 30.0f;
           s.add(Elementwise{
               .rows = rows, .unary = static_cast<Unary>(op), .in = {s.values_of(4, 900, wide)}, .n = 900, .out = s.output(4, 3600)});
         }});
  }
  for (int op = 0; op < kBinaryCount; ++op) {
    cases.push_back({fmt::format("binary {}", op), [op](Scenario& s) {
                       const Rows rows = s.rows(5, 5);
                       const auto binary = static_cast<Binary>(op);
                       s.add(Elementwise{.rows = rows,
                                         .kind = Elementwise::Kind::kBinary,
                                         .binary = binary,
                                         .in = {s.values(5, 777), s.values(5, 777)},
                                         .n = 777,
                                         .out = s.output(5, 3108)});
                       s.add(Elementwise{.rows = rows,
                                         .kind = Elementwise::Kind::kBinary,
                                         .binary = binary,
                                         .in = {s.values(5, 4), s.values(5, 25)},
                                         .spread = {Spread::kPerGroup, Spread::kEvery},
                                         .n = 100,
                                         .groups = 4,
                                         .out = s.output(5, 400)});
                       const View constant{s.put(s.floats(100)), 0};
                       s.add(Elementwise{.rows = rows,
                                         .selection = s.selection(5),
                                         .kind = Elementwise::Kind::kBinary,
                                         .binary = binary,
                                         .in = {constant, s.values(5, 1)},
                                         .spread = {Spread::kAll, Spread::kOne},
                                         .n = 100,
                                         .groups = 4,
                                         .out = s.output(5, 400)});
                     }});
  }
  cases.push_back({"gate, clip, where", [](Scenario& s) {
                     const Rows rows = s.rows(7, 7);
                     for (const Unary op : {Unary::kSilu, Unary::kGeluErf, Unary::kGeluTanh, Unary::kRelu})
                       s.add(Elementwise{.rows = rows,
                                         .kind = Elementwise::Kind::kGate,
                                         .unary = op,
                                         .in = {s.values(7, 8960), s.values(7, 8960)},
                                         .n = 8960,
                                         .out = s.output(7, 35840)});
                     s.add(Elementwise{.rows = rows,
                                       .kind = Elementwise::Kind::kClip,
                                       .low = -0.5f,
                                       .high = 0.25f,
                                       .in = {s.values(7, 33)},
                                       .n = 33,
                                       .out = s.output(7, 132)});
                     s.add(Elementwise{.rows = rows,
                                       .kind = Elementwise::Kind::kWhere,
                                       .in = {s.values(7, 33), s.values(7, 11), s.values(7, 1)},
                                       .spread = {Spread::kAll, Spread::kEvery, Spread::kOne},
                                       .n = 33,
                                       .groups = 3,
                                       .out = s.output(7, 132)});
                   }});
}

void add_reductions(std::vector<ScenarioCase>& cases) {
  struct Shape {
    int64_t n, groups;
  };
  for (const Shape shape : {Shape{1, 1}, Shape{1536, 1}, Shape{8961, 1}, Shape{1536, 12}, Shape{600, 2}, Shape{21, 7}}) {
    cases.push_back(
        {fmt::format("reductions {} {}", shape.n, shape.groups), [shape](Scenario& s) {
           const Rows rows = s.rows(6, 8);
           const View x = s.values(8, shape.n);
           for (int op = 0; op < kReduceCount; ++op)
             s.add(Reduction{.rows = rows,
                             .op = static_cast<Reduce>(op),
                             .x = x,
                             .out = s.output(8, shape.groups * 4),
                             .n = shape.n,
                             .groups = shape.groups});
           for (const bool log : {false, true})
             s.add(Softmax{.rows = rows, .x = x, .out = s.output(8, shape.n * 4), .n = shape.n, .groups = shape.groups, .log = log});
           const View weight{s.put(s.floats(shape.n)), 0}, bias{s.put(s.floats(shape.n)), 0};
           for (const bool centered : {false, true}) {
             Norm norm{.rows = rows,
                       .x = x,
                       .weight = weight,
                       .out = s.output(8, shape.n * 4),
                       .n = shape.n,
                       .groups = shape.groups,
                       .centered = centered,
                       .epsilon = 1e-5f};
             s.add(norm);
             norm.bias = bias, norm.out = s.output(8, shape.n * 4), norm.selection = s.selection(8);
             s.add(norm);
             norm.weight = norm.bias = {}, norm.out = s.output(8, shape.n * 4);
             s.add(norm);
           }
         }});
  }
}

void add_movement(std::vector<ScenarioCase>& cases) {
  cases.push_back({"rotary", [](Scenario& s) {
                     const Rows rows = s.rows(9, 9);
                     for (const bool interleaved : {false, true}) {
                       const View cos{s.put(s.floats(64 * 33)), 33 * 4, s.put(s.floats(64 * 33)), true},
                           sin{s.put(s.floats(64 * 33)), 33 * 4, Address::kNone, true};
                       s.add(Rotary{.rows = rows,
                                    .x = s.values(9, 5 * 80),
                                    .cos = cos,
                                    .sin = sin,
                                    .out = s.output(9, 1600),
                                    .n_heads = 5,
                                    .head_dim = 80,
                                    .n_pairs = 33,
                                    .interleaved = interleaved});
                     }
                   }});
  cases.push_back(
      {"move, registers, gather", [](Scenario& s) {
         const Rows rows = s.rows(4, 4);
         const View a = s.values(4, 300), b = s.values(4, 40);
         const std::vector<MoveRun> few = {{0, 10, 0, 100}, {1, 3, 100, 7}, {0, 250, 107, 1}};
         std::vector<MoveRun> many;
         for (int i = 0; i < 300; ++i) many.push_back({0, i, 299 - i, 1});
         const Address inputs = s.put(std::vector<View>{a, b});
         s.add(Move{.rows = rows, .inputs = inputs, .runs = s.put(few), .n_runs = 3, .out = s.output(4, 432)});
         s.add(Move{.rows = rows, .inputs = inputs, .runs = s.put(many), .n_runs = 300, .out = s.output(4, 1200)});
         for (const int bytes : {1, 2, 8})
           s.add(Move{
               .rows = rows, .inputs = inputs, .runs = s.put(few), .n_runs = 1, .element_bytes = bytes, .out = s.output(4, bytes * 128)});
         std::vector<Address> registers;
         for (int i = 0; i < 8; ++i) registers.push_back(s.output(1, 160).base);
         const RegisterTable table{s.put(registers), 2};
         s.add(Register{.rows = rows, .table = table, .index = 1, .write = true, .n_bytes = 160, .value = b});
         s.add(Register{.rows = rows, .table = table, .index = 1, .n_bytes = 39, .value = s.output(4, 160)});
         const Rows chosen = s.rows(3, 3);
         s.add(GatherRows{
             .rows = chosen, .chosen = s.put(std::vector<int32_t>{3, 0, 2}), .from = a, .to = s.output(3, 1200), .n_bytes = 1200});
       }});
  cases.push_back({"half", [](Scenario& s) {
                     const Rows rows = s.rows(5, 6);
                     for (const int planes : {1, 2})
                       for (const int parts : {1, 3}) {
                         std::vector<float> x = s.floats(6 * parts * 100);
                         for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 600 < 200 ? 1e30f : i % 600 < 300 ? 0.0f : 1e-36f;
                         s.add(ToHalf{.rows = rows,
                                      .x = s.values_of(6, parts * 100, x),
                                      .parts = parts,
                                      .k = 100,
                                      .planes = planes,
                                      .padded_k = 128,
                                      .out = s.output(6, parts * planes * 256),
                                      .scale = s.output(6, parts * 4)});
                       }
                   }});
  cases.push_back({"begin", [](Scenario& s) {
                     const View words = s.output(1, 800);
                     std::vector<Patch> patches;
                     for (uint64_t i = 0; i < 50; ++i) patches.push_back({Address{static_cast<uint64_t>(words.base) + 16 * i}, i * i});
                     s.add(Begin{s.put(patches), s.put(std::vector<int32_t>{50})});
                   }});
  for (const int n : {5, 700, 151936}) {
    cases.push_back({fmt::format("choose of {}", n), [n](Scenario& s) {
                       const Rows rows = s.rows(3, 3);
                       std::vector<float> logits = s.floats(3 * n);
                       for (size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i] * 16.0f) / 16.0f;  // ties
                       logits[2] = std::nanf("");
                       for (int64_t i = 2 * n; i < 3 * n; ++i) logits[static_cast<size_t>(i)] = 1.0f;
                       const View view = s.values_of(3, n, logits);
                       for (const int top : {1, 40, 256})
                         s.add(Choose{.rows = rows, .logits = view, .n = n, .top = top, .room = 300, .out = s.output(3, 16 + 300 * 8)});
                     }});
  }
}

}  // namespace

std::vector<ScenarioCase> row_step_cases() {
  std::vector<ScenarioCase> cases;
  add_elementwise(cases);
  add_reductions(cases);
  add_movement(cases);
  return cases;
}

std::vector<ScenarioCase> matrix_cases() {
  constexpr const char* kNames[] = {"f16", "f32", "q8", "q4", "q8 with zero points", "q4 with zero points"};
  struct Shape {
    int64_t k, n;
    int rows, parts;
  };
  std::vector<ScenarioCase> cases;
  for (int f = 0; f < 6; ++f) {
    for (const Shape shape : {Shape{1, 1, 1, 1}, Shape{40, 17, 3, 1}, Shape{256, 64, 8, 1}, Shape{700, 33, 16, 1}, Shape{1536, 48, 33, 1},
                              Shape{2304, 80, 64, 1}, Shape{4500, 19, 5, 1}, Shape{1000, 3000, 2, 1}, Shape{300, 50, 7, 1},
                              Shape{4100, 200, 1, 8}, Shape{96, 24, 4, 3}, Shape{288, 20, 150, 1}}) {
      cases.push_back(
          {fmt::format("matrix {} {}x{} by {} rows of {}", kNames[f], shape.k, shape.n, shape.rows, shape.parts), [f, shape](Scenario& s) {
             const auto format = static_cast<WeightFormat>(f);
             const int planes = format == WeightFormat::kF32 ? 2 : 1, padded = static_cast<int>((shape.k + 63) / 64 * 64),
                       most = shape.rows + 1;
             const Rows rows = s.rows(shape.rows, most);
             ToHalf half{.rows = rows,
                         .x = s.values(most, shape.k * shape.parts),
                         .parts = shape.parts,
                         .k = static_cast<int32_t>(shape.k),
                         .planes = planes,
                         .padded_k = padded};
             half.out = s.scratch(most, shape.parts * planes * padded * 2);
             half.scale = s.scratch(most, shape.parts * 4);
             s.add(half);
             Matrix matrix{
                 .rows = rows, .parts = shape.parts, .x = half.out, .scale = half.scale, .weights = s.weights(format, shape.k, shape.n)};
             matrix.out = s.output(most, shape.n * shape.parts * 4);
             s.add(matrix);
             matrix.bias = s.put(s.floats(shape.n));
             matrix.residual = s.values(most, shape.n * shape.parts);
             matrix.selection = s.selection(most);
             matrix.out = s.output(most, shape.n * shape.parts * 4);
             s.add(matrix);
             s.add(Embed{.rows = rows,
                         .token = {rows.rows, sizeof(Row)},
                         .weights = matrix.weights,
                         .out = s.output(most, shape.k * 4),
                         .error = s.output(1, 4).base});
           }});
    }
  }
  return cases;
}

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
  attend.parts.spans_a_part = shape.spans_a_part;
  attend.parts.n_parts = (most_keys + kSpanPositions * shape.spans_a_part - 1) / (kSpanPositions * shape.spans_a_part);
  attend.parts.parts = s.room(int64_t{n} * shape.n_heads * attend.parts.n_parts * (2 + shape.value_dim) * 4);
  s.add(attend);
  s.add(MergeSpans{.rows = rows,
                   .n_heads = shape.n_heads,
                   .value_dim = shape.value_dim,
                   .rule = rule,
                   .parts = attend.parts,
                   .out = s.output(n, shape.n_heads * shape.value_dim * 4)});
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
