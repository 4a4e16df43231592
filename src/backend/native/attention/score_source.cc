#include "backend/native/attention/score_source.h"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <random>

#include "backend/native/attention/score_row.h"
#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

constexpr float kLogOfNothing = -1e4f;  // of a weight of zero
constexpr float kLeastWeight = 1e-30f;  // below it digits are lost, and then everything

// A softmax written as primitive nodes is probed from its output: the logarithm of a weight is its score, up to a constant of the row.
void take_logarithms(Scores& weights) {
  for (float& x : weights.data) x = x >= kLeastWeight ? std::log(x) : (x >= 0 ? kLogOfNothing : std::nanf(""));
}

Expected<> require_sums_of_one(const Region& region, const Scores& weights) {
  for (int64_t b = 0; b < weights.batch; ++b) {
    for (int64_t q = 0; q < weights.rows; ++q) {
      for (int64_t h = 0; h < weights.heads; ++h) {
        double sum = 0;
        for (int64_t k = 0; k < weights.keys; ++k) sum += static_cast<double>(weights.at(b, q, k, h));
        if (!(std::abs(sum - 1) < 1e-4)) return refuse(*region.weights_values, "weights over the keys do not sum to one");
      }
    }
  }
  return {};
}

}  // namespace

Expected<Evaluated<Scores>> RegionScores::arranged(const Expected<Evaluated<Tensor>>& evaluation, const Sizes& sizes) const {
  if (!evaluation) return evaluation.refusal();
  const Evaluated<Tensor>& found = *evaluation;
  if (!found) return Evaluated<Scores>{{}, found.failure};
  const std::array<Symbol, 3> front = {Symbol::kBatch, Symbol::kNew, region_.softmaxed};
  Scores result;
  KVIK_TRY(result.data, arrange(*found, context_.labels[wanted()].axes, sizes, front));
  result.batch = sizes.batch;
  result.rows = sizes.fresh;
  result.keys = sizes.of(factor(region_.softmaxed));
  result.heads = region_.n_heads;
  if (static_cast<int64_t>(result.data.size()) != result.batch * result.rows * result.keys * result.heads) {
    return refuse(*region_.weights_values, "its weights have no axis for every batch entry and row");
  }
  if (region_.softmax_expanded()) {
    KVIK_CHECK(require_sums_of_one(region_, result));
    take_logarithms(result);
  }
  return evaluated(std::move(result));
}

Expected<Evaluated<Scores>> RegionScores::softmax_input(const Sizes& sizes, std::span<const float> x) {
  const std::array<Symbol, 2> pairs = {Symbol::kNew, region_.keys};
  const Probe::Given given = {region_.scores, spread(x, context_.labels[region_.scores].axes, sizes, pairs)};
  return arranged(context_.probes.at(sizes).try_get_with(wanted(), std::span(&given, 1)), sizes);
}

Expected<Evaluated<Scores>> RegionScores::softmax_input_of_row(int64_t total, int64_t position, std::span<const float> x) {
  if (context_.labels.flat->has_past || context_.labels.one_token) {
    KVIK_TRY(const Sizes sizes, sizes_at(context_.labels, {.past = total - 1}));
    return softmax_input(sizes, x);
  }
  const std::array<Symbol, 2> pairs = {Symbol::kNew, region_.keys};
  const Sizes row = {.fresh = 1, .past = total - 1};
  const Tensor scores = spread(x, context_.labels[region_.scores].axes, row, pairs);
  return arranged(evaluate_row(context_, {region_.scores, wanted(), total, position}, scores), row);
}

Expected<> RegionScores::require_untouched_weights(const Sizes& sizes) {
  if (region_.softmax_expanded()) return {};
  onnx::ValueId from = region_.softmax_out;
  for (const ScoreRounding& rounding : region_.weight_roundings) {
    KVIK_CHECK(require_same(from, rounding.from, sizes));
    from = rounding.to;
  }
  return require_same(from, region_.weights, sizes);
}

Expected<std::vector<float>> RegionScores::factors_before_roundings(const Sizes& sizes) {
  std::vector<float> factors;
  onnx::ValueId from = region_.product;
  for (const ScoreRounding& rounding : region_.score_roundings) {
    KVIK_CHECK(require_numbers(from, rounding.from));
    KVIK_TRY(const float factor, factor_between(from, rounding.from, sizes));
    factors.push_back(factor);
    from = rounding.to;
  }
  return factors;
}

Symbol RegionScores::keys_of(onnx::ValueId id) const {
  return holds(context_.labels[id].axes, region_.softmaxed) ? region_.softmaxed : region_.keys;
}

Expected<> RegionScores::require_same(onnx::ValueId from, onnx::ValueId to, const Sizes& sizes) {
  if (from == to) return {};
  const Axes& before = context_.labels[from].axes;
  const Axes& after = context_.labels[to].axes;
  std::mt19937 random(5);
  Tensor softmax(DType::kF32, sizes.of(before));
  for (float& x : softmax.mutable_data<float>()) x = static_cast<float>(random() >> 8) * 0x1p-24f;
  const Probe::Given given = {from, softmax};
  KVIK_TRY(const Tensor weights, context_.probes.at(sizes).get_with(to, std::span(&given, 1)));
  const std::array<Symbol, 3> front_before = {Symbol::kBatch, Symbol::kNew, keys_of(from)};
  const std::array<Symbol, 3> front_after = {Symbol::kBatch, Symbol::kNew, keys_of(to)};
  KVIK_TRY(const std::vector<float> x, arrange(softmax, before, sizes, front_before));
  KVIK_TRY(const std::vector<float> y, arrange(weights, after, sizes, front_after));
  const int64_t keys = sizes.of(factor(keys_of(from))), kept = sizes.of(factor(keys_of(to))), heads = region_.n_heads;
  const int64_t rows = sizes.batch * sizes.fresh;
  if (static_cast<int64_t>(x.size()) != rows * keys * heads || static_cast<int64_t>(y.size()) != rows * kept * heads || kept > keys)
    return refuse(*region_.weights_values, "its weights have no axis for every batch entry and row");
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < kept * heads; ++i) {
      const float was = x[static_cast<size_t>(row * keys * heads + i)], is = y[static_cast<size_t>(row * kept * heads + i)];
      if (!(std::abs(was - is) <= 1e-6f)) return refuse(*region_.weights_values, "weights are modified between the softmax and the values");
    }
  }
  return {};
}

Expected<float> RegionScores::factor_between(onnx::ValueId from, onnx::ValueId to, const Sizes& sizes) {
  const Axes& axes = context_.labels[from].axes;
  std::mt19937 random(7);
  Tensor products(DType::kF32, sizes.of(axes));
  for (float& x : products.mutable_data<float>()) x = 1 + static_cast<float>(static_cast<int32_t>(random())) * 0x1p-32f;
  const Probe::Given given = {from, products};
  KVIK_TRY(const Tensor scaled, context_.probes.at(sizes).get_with(to, std::span(&given, 1)));
  const std::array<Symbol, 3> front = {Symbol::kBatch, Symbol::kNew, region_.keys};
  KVIK_TRY(const std::vector<float> x, arrange(products, axes, sizes, front));
  KVIK_TRY(const std::vector<float> y, arrange(scaled, context_.labels[to].axes, sizes, front));
  const float factor = x.empty() || x.size() != y.size() ? 0.0f : y[0] / x[0];
  for (size_t i = 0; i < x.size() && factor != 0; ++i) {
    if (std::abs(y[i] - factor * x[i]) <= 1e-5f * std::abs(y[i])) continue;
    return refuse(*region_.weights_values, "scores are rounded after more than a scale was applied to the product of queries and keys");
  }
  if (!std::isnormal(factor)) return refuse(*region_.weights_values, "it rounds something other than the scores");
  return factor;
}

// A mask need not show at the few sizes that are probed, so nothing but single numbers, the same at every size, may be applied.
Expected<> RegionScores::require_numbers(onnx::ValueId from, onnx::ValueId to) {
  const auto is_number = [&](onnx::ValueId id) -> Expected<bool> {
    std::optional<float> number;
    for (Probe* probe : context_.probes.triple()) {
      KVIK_TRY(const Tensor tensor, probe->get(id));
      if (is_integer(tensor.dtype())) return true;  // a shape
      if (tensor.size() != 1) return false;
      const float is = to_floats(tensor).data<float>()[0];
      if (is != number.value_or(is)) return false;
      number = is;
    }
    return true;
  };
  const onnx::Graph& graph = context_.labels.flat->graph;
  const auto known = [&](onnx::ValueId id) { return id == from || !context_.labels[id].is_score; };
  for (const onnx::NodeId n : nodes_needed(graph, to, known)) {
    const onnx::Node& node = graph.nodes[static_cast<size_t>(n)];
    for (const onnx::ValueId id : node.inputs) {
      if (id == onnx::kNoValue || context_.labels[id].is_score) continue;
      KVIK_TRY(const bool is_plain, is_number(id));
      if (!is_plain) return refuse(node, "scores are rounded after a bias or more than one scale was applied");
    }
  }
  return {};
}

}  // namespace kvik::native
