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
                     const std::vector<float> block = s.floats(4 * 700);
                     const View copied = s.output(1, 4 * 4 * 700);
                     s.add(Begin{copied.base, s.put(block), 4 * 4 * 700, s.put(patches), s.put(std::vector<int32_t>{50})});
                     std::vector<int32_t> chosen;
                     for (int32_t i = 0; i < 60; ++i) chosen.push_back(i * 31);
                     s.add(Begin{.to = s.output(1, 4 * 4 * 700).base,
                                 .from = s.put(block),
                                 .n_bytes = 4 * 4 * 700,
                                 .patches = s.put(patches),
                                 .n_patches = s.put(std::vector<int32_t>{0}),
                                 .n_continued = s.put(std::vector<int32_t>{60}),
                                 .chosen = s.put(chosen),
                                 .rows_offset = 72});
                   }});
  for (const auto& [n, n_rows] : {std::pair{5, 3}, {700, 3}, {151936, 3}, {20000, 20}, {20000, 50}}) {
    cases.push_back({fmt::format("choose of {}, {} rows", n, n_rows), [n, n_rows](Scenario& s) {
                       const Rows rows = s.rows(n_rows, n_rows);
                       std::vector<float> logits = s.floats(int64_t{n_rows} * n);
                       for (size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i] * 16.0f) / 16.0f;  // ties
                       logits[2] = std::nanf("");
                       for (int64_t i = 2 * n; i < 3 * n; ++i) logits[static_cast<size_t>(i)] = 1.0f;
                       const View view = s.values_of(n_rows, n, logits);
                       for (const int top : {1, 40, 256})
                         s.add(Choose{.rows = rows,
                                      .logits = view,
                                      .n = n,
                                      .top = top,
                                      .room = 300,
                                      .out = s.output(n_rows, 16 + 300 * 8),
                                      .largest = s.output(n_rows, 4).base});
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
    for (const Shape shape :
         {Shape{1, 1, 1, 1}, Shape{40, 17, 3, 1}, Shape{256, 64, 8, 1}, Shape{700, 33, 16, 1}, Shape{1536, 48, 33, 1},
          Shape{2304, 80, 64, 1}, Shape{4500, 19, 5, 1}, Shape{1000, 3000, 2, 1}, Shape{300, 50, 7, 1}, Shape{4100, 200, 1, 8},
          Shape{96, 24, 4, 3}, Shape{288, 20, 150, 1}, Shape{1504, 300, 9, 1}, Shape{4500, 24, 16, 1}, Shape{544, 400, 65, 1},
          Shape{4700, 24, 128, 1}, Shape{300, 130, 200, 1}, Shape{2080, 20, 256, 1}, Shape{100, 40, 513, 1}}) {
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

}  // namespace kvik::testing_support
