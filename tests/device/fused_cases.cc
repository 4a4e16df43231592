// Steps as a decoder has them around its products: what a device may do in one launch.
#include <fmt/format.h>

#include "device/scenario.h"

namespace kvik::testing_support {
namespace {

using namespace device;

struct FusedShape {
  WeightFormat format;
  int rows;
  int32_t width, inner;
  bool centered;  // LayerNorm with biases, and a unary function instead of a gate
};

View shifted(View view, int64_t n_floats) {
  view.base = Address{static_cast<uint64_t>(view.base) + static_cast<uint64_t>(n_floats * 4)};
  return view;
}

// Norm, product, activation, product, addition, norm, product. Every value is an output.
void add_layer(Scenario& s, const FusedShape& shape) {
  const int most = shape.rows == 8 ? 8 : shape.rows + 1, width = shape.width, inner = shape.inner;
  const Rows rows = s.rows(shape.rows, most);
  const View hidden = s.values(most, width);
  const int planes = shape.format == WeightFormat::kF32 ? 2 : 1;
  const auto half = [&](const View& x, int32_t k) {
    const int32_t padded = (k + 63) / 64 * 64;
    s.add(ToHalf{.rows = rows,
                 .x = x,
                 .k = k,
                 .planes = planes,
                 .padded_k = padded,
                 .out = s.output(most, planes * padded * 2),
                 .scale = s.output(most, 4)});
    const auto& step = std::get<ToHalf>(s.steps().back());
    return std::pair(step.out, step.scale);
  };
  const auto product = [&](const std::pair<View, View>& x, int32_t k, int32_t n) {
    const View out = s.output(most, n * 4);
    Matrix matrix{.rows = rows, .x = x.first, .scale = x.second, .weights = s.weights(shape.format, k, n), .out = out};
    if (shape.centered) matrix.bias = s.put(s.floats(n));
    s.add(matrix);
    return out;
  };
  const auto norm = [&](const View& x) {
    const View out = s.output(most, width * 4);
    Norm step{.rows = rows, .x = x, .out = out, .n = width, .centered = shape.centered, .epsilon = 1e-5f};
    if (shape.centered || shape.rows > 1) step.weight = {s.put(s.floats(width))};
    if (shape.centered) step.bias = {s.put(s.floats(width))};
    s.add(step);
    return out;
  };
  const std::pair<View, View> normed = half(norm(hidden), width);
  View activated = s.output(most, inner * 4);
  if (shape.centered) {
    const View up = product(normed, width, inner);
    s.add(Elementwise{.rows = rows, .unary = Unary::kGeluTanh, .in = {up}, .n = inner, .out = activated});
  } else {
    const View both = product(normed, width, 2 * inner);
    s.add(Elementwise{.rows = rows,
                      .kind = Elementwise::Kind::kGate,
                      .unary = Unary::kSilu,
                      .in = {shape.rows == 3 ? shifted(both, inner) : both, shape.rows == 3 ? both : shifted(both, inner)},
                      .n = inner,
                      .out = activated});
  }
  const View projected = product(half(activated, inner), inner, width), sum = s.output(most, width * 4);
  Elementwise add{.rows = rows, .kind = Elementwise::Kind::kBinary, .in = {hidden, projected}, .n = width, .out = sum};
  if (shape.rows == 3) add.in[0] = projected, add.in[1] = hidden;
  s.add(add);
  product(half(norm(sum), width), width, 40);
}

}  // namespace

std::vector<ScenarioCase> fused_cases() {
  constexpr const char* kNames[] = {"f16", "f32", "q8", "q4", "q8 with zero points"};
  std::vector<ScenarioCase> cases;
  for (const auto format : {WeightFormat::kF16, WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kF32, WeightFormat::kQ8Zero}) {
    for (const int rows : {1, 2, 3, 5, 8, 12}) {
      for (const bool centered : {false, true}) {
        const FusedShape shape{format, rows, rows == 2 ? 320 : 516, rows == 1 ? 4512 : rows == 8 ? 2304 : 592, centered};
        cases.push_back({fmt::format("layer in {} of {} rows{}", kNames[static_cast<int>(format)], rows, centered ? ", centered" : ""),
                         [shape](Scenario& s) { add_layer(s, shape); }});
      }
    }
  }
  for (const auto format : {WeightFormat::kF16, WeightFormat::kQ8, WeightFormat::kQ4}) {  // more elements than short rows have
    const FusedShape shape{format, 1, 1636, 608, false};
    cases.push_back(
        {fmt::format("layer in {} of a long row", kNames[static_cast<int>(format)]), [shape](Scenario& s) { add_layer(s, shape); }});
  }
  return cases;
}

}  // namespace kvik::testing_support
