#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <numeric>

#include "backend/native/attention/confirm.h"
#include "backend/native/attention/key_value_layout.h"
#include "backend/native/attention/operator_definition.h"
#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

using onnx::ValueId;

// The same operator with the same mask at the same sizes has the same pattern.
std::string key_of(const AttentionContext& context, const OperatorDefinition& definition, bool from_source) {
  ValueNumbers& numbers = context.numbers;
  const auto number = [&](int input) { return definition.input(input) == onnx::kNoValue ? -1 : numbers.number(definition.input(input)); };
  std::string key =
      fmt::format("{} {} mask {} {} valid {} heads {} {} {} scale {} {} causal {} {} {} {} past {}", definition.node.op, from_source,
                  number(definition.mask), definition.mask_may_be_short, number(definition.valid_keys), definition.n_heads,
                  definition.n_kv_heads, definition.key_dim, definition.function.scale, definition.function.cap, definition.causal,
                  definition.by_position, definition.left, definition.right, definition.appends());
  return key;
}

Expected<> require_no_rows(const AttentionContext& context, const OperatorDefinition& definition) {
  const ValueId mask = definition.input(definition.mask);
  if (mask != onnx::kNoValue && context.labels[mask].kind == Label::Kind::kRow)
    return refuse(definition.node, "its bias on scores depends on the contents of rows");
  return {};
}

Expected<MaskPattern> pattern_of(const AttentionContext& context, const OperatorDefinition& definition, bool from_source) {
  const std::string key = key_of(context, definition, from_source);
  const auto known = context.patterns.known.find(key);
  if (known != context.patterns.known.end()) return known->second;
  OperatorScores source(context, definition, from_source ? Symbol::kSource : Symbol::kTotal);
  const MaskProbe mask = {.node = definition.node,
                          .source = source,
                          .n_heads = definition.n_heads,
                          .from_source = from_source,
                          .softmax_expanded = false,
                          .score_function = definition.function};
  KVIK_TRY(MaskPattern pattern, probe_mask(context, mask));
  return context.patterns.known[key] = std::move(pattern);
}

// Rows as the operator wants them: [batch, kv heads, positions from … to - 1, size].
Tensor past_tensor(std::span<const float> rows, const OperatorDefinition& definition, const Sizes& sizes, int64_t size) {
  Tensor result(DType::kF32, {sizes.batch, definition.n_kv_heads, sizes.past, size});
  float* target = result.size() > 0 ? result.mutable_data<float>().data() : nullptr;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t h = 0; h < definition.n_kv_heads; ++h) {
      for (int64_t t = 0; t < sizes.past; ++t) {
        const float* row = rows.data() + ((b * sizes.total() + t) * definition.n_kv_heads + h) * size;
        target = std::copy(row, row + size, target);
      }
    }
  }
  return result;
}

Tensor fresh_tensor(std::span<const float> rows, const Axes& axes, const Sizes& sizes) {
  const int64_t width = row_elements(axes);
  std::vector<float> fresh;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const float* from = rows.data() + (b * sizes.total() + sizes.past) * width;
    fresh.insert(fresh.end(), from, from + sizes.fresh * width);
  }
  const std::array<Symbol, 2> front = {Symbol::kBatch, Symbol::kNew};
  return spread(fresh, axes, sizes, front);
}

// An operator that appends to the past itself gets the rows in two pieces.
std::vector<Probe::Given> pieces(const AttentionContext& context, const OperatorDefinition& definition, const Sizes& sizes,
                                 std::span<const float> k, std::span<const float> v) {
  const ValueId key = definition.key, value = definition.value;
  return {{definition.input(definition.past_key), past_tensor(k, definition, sizes, definition.key_dim)},
          {definition.input(definition.past_value), past_tensor(v, definition, sizes, definition.value_dim)},
          {key, fresh_tensor(k, context.labels[key].axes, sizes)},
          {value, fresh_tensor(v, context.labels[value].axes, sizes)}};
}

// Rows of a buffer that is not full: its mask gives the length.
Expected<std::vector<Probe::Given>> in_buffer(const AttentionContext& context, const OperatorDefinition& definition, const Sizes& sizes,
                                              std::span<const float> k, std::span<const float> v) {
  const ValueId mask = definition.input(definition.mask);
  int64_t width = 0;
  if (mask != onnx::kNoValue) {
    KVIK_TRY(const Tensor evaluated_mask, context.probes.at(sizes).get(mask));
    width = evaluated_mask.dim(-1);
  }
  Sizes buffer = sizes;
  buffer.past = std::max(sizes.past, width - sizes.fresh);
  const auto padded = [&](ValueId value, std::span<const float> rows) {
    const Axes& axes = context.labels[value].axes;
    const std::array<Symbol, 2> front = {Symbol::kBatch, Symbol::kTotal};
    const int64_t length = sizes.total() * row_elements(axes);
    std::vector<float> all;
    for (int64_t b = 0; b < sizes.batch; ++b) {
      all.insert(all.end(), rows.data() + b * length, rows.data() + (b + 1) * length);
      all.resize(static_cast<size_t>((b + 1) * buffer.total() * row_elements(axes)), 7.0f);
    }
    return spread(all, axes, buffer, front);
  };
  const ValueId key = definition.key, value = definition.value;
  return std::vector<Probe::Given>{{key, padded(key, k)}, {value, padded(value, v)}};
}

// Every head with keys and values of its own; those that are the same are found later, where they may have been repeated before too.
void set_operator_layout(const OperatorDefinition& definition, Attend& attend) {
  attend.n_heads = attend.n_kv_heads = definition.n_heads;
  attend.key_dim = definition.key_dim;
  attend.value_dim = definition.value_dim;
  attend.q_map.resize(static_cast<size_t>(definition.n_heads * definition.key_dim));
  std::iota(attend.q_map.begin(), attend.q_map.end(), 0);
  const int64_t n_sharing = definition.n_heads / definition.n_kv_heads;
  for (int64_t h = 0; h < definition.n_heads; ++h) {
    for (int64_t d = 0; d < definition.key_dim; ++d) attend.k_map.push_back(static_cast<int32_t>(h / n_sharing * definition.key_dim + d));
    for (int64_t d = 0; d < definition.value_dim; ++d)
      attend.v_map.push_back(static_cast<int32_t>(h / n_sharing * definition.value_dim + d));
  }
}

// Axes of the result, which has no label yet: as the queries', with values in the place of keys.
Axes result_axes(const AttentionContext& context, const OperatorDefinition& definition) {
  Axes axes = context.labels[definition.query].axes;
  axes.back() = canonical({factor(axes.size() == 4 ? definition.value_dim : definition.n_heads * definition.value_dim)});
  return axes;
}

}  // namespace

Expected<FoundAttention> match_operator(const AttentionContext& context, const onnx::Node& node) {
  KVIK_TRY(const OperatorDefinition definition, operator_definition(context, node));
  KVIK_CHECK(require_no_rows(context, definition));
  const bool from_source = holds(context.labels[definition.key].axes, Symbol::kSource);
  KVIK_TRY(const MaskPattern pattern, pattern_of(context, definition, from_source));
  FoundAttention found;
  found.attend = pattern.attend;
  found.attend.sinks = definition.sinks;
  if (!definition.sinks.empty()) found.attend.words += ", sink";
  found.limit = pattern.limit;
  found.new_tokens_see_all = pattern.new_tokens_see_all;
  found.whole_prompt = pattern.whole_prompt;
  found.operands = {definition.query, definition.key, definition.value};
  set_operator_layout(definition, found.attend);
  AttentionNodes nodes = {.node = node,
                          .operands = found.operands,
                          .out = node.outputs.at(0),
                          .out_axes = result_axes(context, definition),
                          .one_row = pattern.new_tokens_see_all,
                          .whole_prompt = pattern.whole_prompt,
                          .limit = pattern.limit};
  if (definition.appends()) {
    nodes.more = [&](const Sizes& sizes, std::span<const float> k, std::span<const float> v) {
      return pieces(context, definition, sizes, k, v);
    };
  } else if (definition.mask_may_be_short && holds(context.labels[found.operands.k].axes, Symbol::kTotal)) {
    nodes.more = [&](const Sizes& sizes, std::span<const float> k, std::span<const float> v) {
      return in_buffer(context, definition, sizes, k, v);
    };
  }
  KVIK_CHECK(confirm(context, nodes, found.attend));
  read_from_sources(context, found);
  return found;
}

}  // namespace kvik::native
