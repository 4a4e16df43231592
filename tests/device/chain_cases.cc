#include <fmt/format.h>

#include "device/scenario.h"

namespace kvik::testing_support {

using namespace device;

namespace {

// Row steps that read each other, of n elements.
struct ChainShape {
  int64_t n;
  int n_rows = 3, planes = 1, n_adds = 1;
  bool gate = false, norm = true, centered = false, half = true;
  Unary unary = Unary::kSilu;
};

void build(Scenario& s, const ChainShape& shape) {
  const int most = shape.n_rows + 1;
  const Rows rows = s.rows(shape.n_rows, most);
  View x = s.values(most, shape.n);
  for (int i = 0; i < shape.n_adds; ++i) {
    const View other = i == 0 ? s.values(most, shape.n) : View{s.put(s.floats(shape.n)), 0};
    const View sum = s.output(most, shape.n * 4);
    s.add(Elementwise{.rows = rows,
                      .kind = shape.gate ? Elementwise::Kind::kGate : Elementwise::Kind::kBinary,
                      .unary = shape.unary,
                      .in = {i == 0 || shape.gate ? x : other, i == 0 || shape.gate ? other : x},
                      .n = shape.n,
                      .out = sum});
    x = sum;
  }
  if (shape.norm) {
    const View normed = s.output(most, shape.n * 4), weight{s.put(s.floats(shape.n)), 0};
    const View bias = shape.centered ? View{s.put(s.floats(shape.n)), 0} : View{};
    s.add(Norm{
        .rows = rows, .x = x, .weight = weight, .bias = bias, .out = normed, .n = shape.n, .centered = shape.centered, .epsilon = 1e-6f});
    x = normed;
  }
  if (!shape.half) return;
  const auto padded = static_cast<int32_t>((shape.n + 63) / 64 * 64);
  const int64_t half_bytes = int64_t{shape.planes} * padded * 2;
  const View out = s.output(most, half_bytes + 4);
  const View scale{Address{static_cast<uint64_t>(out.base) + static_cast<uint64_t>(half_bytes)}, out.stride};  // behind the halves of its row
  s.add(ToHalf{.rows = rows,
               .x = x,
               .k = static_cast<int32_t>(shape.n),
               .planes = shape.planes,
               .padded_k = padded,
               .out = out,
               .scale = scale});
}

}  // namespace

std::vector<ScenarioCase> chain_cases() {
  std::vector<ChainShape> shapes;
  for (const int64_t n : {4, 100, 102, 1536, 2050, 4096, 8960, 10244, 20480, 30000}) {
    shapes.push_back({.n = n});
    shapes.push_back({.n = n, .planes = 2, .n_adds = 2, .centered = true});
    shapes.push_back({.n = n, .gate = true, .norm = false});
  }
  shapes.push_back({.n = 1536, .n_adds = 0});
  shapes.push_back({.n = 1536, .n_adds = 0, .half = false});
  shapes.push_back({.n = 1536, .n_adds = 0, .norm = false});
  shapes.push_back({.n = 1536, .gate = true, .norm = false, .unary = Unary::kGeluTanh});
  for (const int n_rows : {1, 8, 17, 64, 300}) shapes.push_back({.n = 256, .n_rows = n_rows});
  std::vector<ScenarioCase> cases;
  for (size_t i = 0; i < shapes.size(); ++i)
    cases.push_back({fmt::format("chain {} of {}", i, shapes[i].n), [shape = shapes[i]](Scenario& s) { build(s, shape); }});
  return cases;
}

}  // namespace kvik::testing_support
