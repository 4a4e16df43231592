#include "backend/native/attention/confirm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <random>
#include <utility>

#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

constexpr double kTolerance = 2e-4;

// RowData by batch entry and position.
struct RowData {
  int64_t n_positions = 0, size = 0;
  std::vector<float> data;

  const float* at(int64_t b, int64_t position) const { return data.data() + (b * n_positions + position) * size; }
};

RowData random_rows(std::mt19937& random, int64_t batch, int64_t n_positions, int64_t size, float spread) {
  RowData rows = {n_positions, size, std::vector<float>(static_cast<size_t>(batch * n_positions * size))};
  for (float& x : rows.data) x = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f * 1.7f * spread;
  return rows;
}

struct RandomOperands {
  RowData q, k, v;
};

int64_t element(const std::vector<int32_t>& map, int64_t i) { return map.empty() ? i : map[static_cast<size_t>(i)]; }

// Numbers that are rounded, unless one of them is so close to the middle of two codes that another order of adding could move it.
class Rounder {
 public:
  double operator()(double x, const std::vector<Rounding>& roundings) {
    for (const Rounding& r : roundings) {
      const double steps = x / static_cast<double>(r.step), low = static_cast<double>(r.low), high = static_cast<double>(r.high);
      const bool inside = steps > low - 1 && steps < high + 1;
      if (inside && std::abs(steps - std::floor(steps) - 0.5) < 1e-3 + 2e-6 * std::abs(steps)) is_clear_ = false;
      x = std::clamp(std::nearbyint(steps), low, high) * static_cast<double>(r.unit);
    }
    return x;
  }
  bool is_clear() const { return is_clear_; }

 private:
  bool is_clear_ = true;
};

class PlainAttend {
 public:
  PlainAttend(const Attend& attend, const RandomOperands& operands) : attend_(attend), operands_(operands) {}

  // One head's values for a row at `position` of batch entry b; nothing if rounding could change them.
  std::optional<std::vector<double>> head(int64_t b, int64_t row, int64_t position, int64_t h) const {
    Rounder rounded;
    const int64_t n_keys = operands_.k.n_positions;
    const int64_t shared =
        attend_.kv_head_of.empty() ? h / (attend_.n_heads / attend_.n_kv_heads) : attend_.kv_head_of[static_cast<size_t>(h)];
    std::vector<double> weights(static_cast<size_t>(n_keys));
    double largest = attend_.sinks.empty() ? -INFINITY : static_cast<double>(attend_.sinks[static_cast<size_t>(h)]);
    for (int64_t t = 0; t < n_keys; ++t) {
      const double score =
          capped(rounded(dot(b, row, t, h, shared), attend_.score_roundings)) + static_cast<double>(bias_of(attend_, h, position - t));
      weights[static_cast<size_t>(t)] = score;
      largest = std::max(largest, score);
    }
    double sum = attend_.sinks.empty() ? 0 : std::exp(static_cast<double>(attend_.sinks[static_cast<size_t>(h)]) - largest);
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    std::vector<double> result(static_cast<size_t>(attend_.value_dim), 0);
    for (int64_t t = 0; t < n_keys; ++t) {
      const float* v = operands_.v.at(b, t);
      const double weight = rounded(weights[static_cast<size_t>(t)] / sum, attend_.weight_roundings);
      for (int64_t d = 0; d < attend_.value_dim; ++d) {
        const auto value = static_cast<double>(v[element(attend_.v_map, shared * attend_.value_dim + d)]);
        result[static_cast<size_t>(d)] += weight * value;
      }
    }
    if (!rounded.is_clear()) return {};
    return result;
  }

 private:
  double dot(int64_t b, int64_t row, int64_t t, int64_t h, int64_t shared) const {
    const float *q = operands_.q.at(b, row), *k = operands_.k.at(b, t);
    double sum = 0;
    for (int64_t d = 0; d < attend_.key_dim; ++d) {
      sum += static_cast<double>(q[element(attend_.q_map, h * attend_.key_dim + d)]) *
             static_cast<double>(k[element(attend_.k_map, shared * attend_.key_dim + d)]);
    }
    return sum * static_cast<double>(attend_.scale);
  }

  double capped(double score) const {
    const auto cap = static_cast<double>(attend_.soft_cap);
    return cap == 0 ? score : cap * std::tanh(score / cap);
  }

  const Attend& attend_;
  const RandomOperands& operands_;
};

Symbol position_symbol(const Axes& axes, bool from_source) {
  if (from_source) return Symbol::kSource;
  return holds(axes, Symbol::kTotal) ? Symbol::kTotal : Symbol::kNew;
}

class Confirmation {
 public:
  Confirmation(const AttentionContext& context, const AttentionNodes& nodes, const Attend& attend)
      : context_(context), nodes_(nodes), attend_(attend) {}

  // False if the graph cannot be evaluated at these sizes.
  Expected<bool> at(const Sizes& sizes, std::string& failure) const {
    const RandomOperands operands = draw(sizes);
    KVIK_TRY(const Evaluated<std::vector<float>> evaluation, computed(sizes, operands));
    if (!evaluation) {
      failure = evaluation.failure;
      return false;
    }
    const std::vector<float>& out = *evaluation;
    const int64_t size = attend_.n_heads * attend_.value_dim;
    const PlainAttend plain(attend_, operands);
    int64_t n_judged = 0;
    for (int64_t b = 0; b < sizes.batch; ++b) {
      for (int64_t row = 0; row < sizes.fresh; ++row) {
        std::vector<std::optional<std::vector<double>>> expected;
        for (int64_t h = 0; h < attend_.n_heads; ++h) expected.push_back(plain.head(b, row, sizes.past + row, h));
        for (int64_t i = 0; i < size; ++i) {
          const auto found = static_cast<double>(out[static_cast<size_t>((b * sizes.fresh + row) * size + i)]);
          const int64_t at = element(attend_.out_map, i);
          const std::optional<std::vector<double>>& head = expected[static_cast<size_t>(at / attend_.value_dim)];
          if (!head) continue;
          const double wanted = (*head)[static_cast<size_t>(at % attend_.value_dim)];
          if (!(std::abs(found - wanted) <= kTolerance * (1 + std::abs(wanted)))) return differs(sizes, std::abs(found - wanted));
          ++n_judged;
        }
      }
    }
    if (n_judged * 10 < sizes.batch * sizes.fresh * size) return refuse(nodes_.node, "most of its scores are halfway between two codes");
    return true;
  }

 private:
  Refusal differs(const Sizes& sizes, double difference) const {
    return refuse(nodes_.node,
                  fmt::format("it was inferred as '{}', but with {} past and {} new tokens it computes something else (difference {:.2g})",
                              attend_.words, sizes.past, sizes.fresh, difference));
  }

  // Scores of about 3, whatever the scale, so that weights differ.
  RandomOperands draw(const Sizes& sizes) const {
    std::mt19937 random(static_cast<uint32_t>(11 + sizes.total() + 7 * sizes.batch));
    float factor = std::abs(attend_.scale);
    for (const Rounding& rounding : attend_.score_roundings) factor *= std::abs(rounding.unit / rounding.step);
    const float scale = std::max(1e-6f, factor * std::sqrt(static_cast<float>(attend_.key_dim)));
    const float spread_of = std::sqrt(3.0f / scale);
    const int64_t n_keys = attend_.from_source ? sizes.source : sizes.total();
    RandomOperands operands;
    operands.q = random_rows(random, sizes.batch, sizes.fresh, row_elements(axes(nodes_.operands.q)), spread_of);
    operands.k = random_rows(random, sizes.batch, n_keys, row_elements(axes(nodes_.operands.k)), spread_of);
    operands.v = random_rows(random, sizes.batch, n_keys, row_elements(axes(nodes_.operands.v)), 1);
    return operands;
  }

  Expected<Evaluated<std::vector<float>>> computed(const Sizes& sizes, const RandomOperands& operands) const {
    const std::array<Symbol, 2> rows = {Symbol::kBatch, Symbol::kNew};
    const auto keyed = [&](onnx::ValueId id) { return std::array{Symbol::kBatch, position_symbol(axes(id), attend_.from_source)}; };
    std::vector<Probe::Given> given;
    if (nodes_.more) {
      KVIK_TRY(given, nodes_.more(sizes, operands.k.data, operands.v.data));
    } else {
      given = {{nodes_.operands.k, spread(operands.k.data, axes(nodes_.operands.k), sizes, keyed(nodes_.operands.k))},
               {nodes_.operands.v, spread(operands.v.data, axes(nodes_.operands.v), sizes, keyed(nodes_.operands.v))}};
    }
    given.emplace_back(nodes_.operands.q, spread(operands.q.data, axes(nodes_.operands.q), sizes, rows));
    KVIK_TRY(const Evaluated<Tensor> out, context_.probes.at(sizes).try_get_with(nodes_.out, given));
    if (!out) return Evaluated<std::vector<float>>{{}, out.failure};
    KVIK_TRY(std::vector<float> numbers, arrange(*out, nodes_.out_axes, sizes, rows));
    return evaluated(std::move(numbers));
  }

  const Axes& axes(onnx::ValueId id) const { return context_.labels[id].axes; }

  const AttentionContext& context_;
  const AttentionNodes& nodes_;
  const Attend& attend_;
};

Expected<> confirm_at(const AttentionContext& context, const AttentionNodes& nodes, const Attend& attend, const Positions& positions) {
  KVIK_TRY(Sizes sizes, sizes_at(context.labels, positions));
  const Confirmation confirmation(context, nodes, attend);
  std::string failure;
  KVIK_TRY(bool is_confirmed, confirmation.at(sizes, failure));
  const bool batched = std::exchange(sizes.batch, 1) != 1;
  if (!is_confirmed && batched) {  // it may be a graph for one sequence at a time
    KVIK_TRY(is_confirmed, confirmation.at(sizes, failure));
  }
  if (!is_confirmed) return refuse(nodes.node, fmt::format("it cannot be evaluated on its own ({})", failure));
  return {};
}

}  // namespace

Expected<> confirm(const AttentionContext& context, const AttentionNodes& nodes, const Attend& attend) {
  const Labels& labels = context.labels;
  int64_t n_confirmed = 0;
  const auto look = [&](const Positions& positions) -> Expected<> {
    if (nodes.limit && positions.past + positions.fresh > *nodes.limit) return {};
    ++n_confirmed;
    return confirm_at(context, nodes, attend, positions);
  };
  if (nodes.whole_prompt) {
    KVIK_CHECK(look({.fresh = 5, .batch = 2, .source = 6}));
    KVIK_CHECK(look({.fresh = 17, .batch = 1, .source = 4}));
  }
  const bool one_row = labels.one_token || nodes.one_row || nodes.whole_prompt;
  KVIK_CHECK(look({.past = one_row ? 7 : 2, .fresh = one_row ? 1 : 5, .batch = 2, .source = 6}));
  KVIK_CHECK(look({.past = one_row ? 19 : 13, .fresh = one_row ? 1 : 3, .batch = 1, .source = 4}));
  if (n_confirmed == 0) KVIK_CHECK(confirm_at(context, nodes, attend, {.past = *nodes.limit - 1}));
  return {};
}

}  // namespace kvik::native
