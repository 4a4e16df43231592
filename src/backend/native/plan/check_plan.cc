#include "backend/native/plan/check_plan.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <span>

#include "backend/native/plan/check_op.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

constexpr size_t kMostRoundings = 64;              // of one attention's scores or weights
constexpr int64_t kMostBuffer = int64_t{1} << 20;  // positions of a past of fixed size: feeds are as long

// The message states what was found and what was expected. Its arguments are evaluated even if the check passes.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) throw Error(Code::kBadArgument, "the plan is not well-formed: " + fmt::format(text, std::forward<Args>(args)...));
}

bool is_size(int64_t size) { return size >= 1 && size <= kLargestSize; }
bool has_whole_bytes(DType dtype) { return bits_per_element(dtype) >= 8; }

void check_values(const Plan& plan) {
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const PlanValue& value = plan.values[i];
    require(value.size >= 0 && value.size <= kLargestSize && has_whole_bytes(value.dtype),
            "value %{} is {}[{}]; expected whole bytes and at most {} elements", i, dtype_name(value.dtype), value.size, kLargestSize);
    if (value.selection == kNoIndex) continue;
    require(is_index(value.selection, plan.values) && plan.value(value.selection).selection == value.selection,
            "rows of value %{} are selected by %{}, which selects no rows", i, value.selection);
  }
  for (size_t i = 0; i < plan.registers.size(); ++i)
    require(is_size(plan.registers[i].size) && has_whole_bytes(plan.registers[i].dtype),
            "register {} is {}[{}]; expected whole bytes and 1 to {} elements", i, dtype_name(plan.registers[i].dtype),
            plan.registers[i].size, kLargestSize);
}

void check_part(const Plan& plan, const PlanWeight& weight, const WeightPart& part, size_t i) {
  const Quantization& q = part.quantization;
  const bool named = is_index(part.value, plan.tensors) && part.scales >= -1 && part.zero_points >= -1 &&
                     part.scales < static_cast<int>(plan.tensors.size()) && part.zero_points < static_cast<int>(plan.tensors.size());
  require(named && (!q || part.scales >= 0),
          "weight {} is made of tensor {} with scales {} and zero points {}; the plan has {} tensors, and codes need scales", i, part.value,
          part.scales, part.zero_points, plan.tensors.size());
  require(part.k == weight.k && is_size(part.n) && part.slice >= -1 && part.slice < (1 << 16),
          "a part of weight {} is {} x {}, slice {}; expected {} rows", i, part.k, part.n, part.slice, weight.k);
  require((q.bits == 4 || q.bits == 8) && q.block >= 0 && q.block <= kLargestSize && (q.axis == 0 || q.axis == 1),
          "weight {} has codes of {} bits in blocks of {} along axis {}; expected 4 or 8 bits and axis 0 or 1", i, q.bits, q.block, q.axis);
}

void check_weights(const Plan& plan) {
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const PlanWeight& weight = plan.weights[i];
    require(is_size(weight.k) && is_size(weight.n) && weight.k * weight.n <= int64_t{1} << 40 && !weight.parts.empty(),
            "weight {} is {} x {} in {} parts; expected 1 to 2^40 elements and at least one part", i, weight.k, weight.n,
            weight.parts.size());
    int64_t n = 0;
    for (const WeightPart& part : weight.parts) {
      check_part(plan, weight, part, i);
      const PlanWeight first{weight.k, weight.parts.front().n, {weight.parts.front()}, weight.activations};
      const PlanWeight here{weight.k, part.n, {part}, weight.activations};
      require(&part == &weight.parts.front() || (n % 32 == 0 && can_pack_together(plan, first, here)),
              "a part of weight {} begins at column {} and cannot be packed beside the first one", i, n);
      n += part.n;
    }
    require(n == weight.n, "the parts of weight {} have {} columns; expected {}", i, n, weight.n);
    const Quantization::Kind kind = weight.parts.front().quantization.kind;
    const bool codes = kind == Quantization::Kind::kLinear || kind == Quantization::Kind::kInteger;
    require(weight.activations == Activations::kFloats || (weight.activations == Activations::kBytes && codes),
            "weight {} multiplies rows of kind {}; expected floats, or bytes if it has codes", i, static_cast<int>(weight.activations));
    const bool fixed = weight.activations == Activations::kBytes && std::isnormal(weight.row_scale) && weight.row_scale > 0;
    require(weight.row_scale == 0 || fixed, "weight {} has a scale of rows of {}", i, weight.row_scale);
    require(weight.row_zero_point >= 0 && weight.row_zero_point <= (fixed ? 255 : 0), "weight {} has a zero point of rows of {}", i,
            weight.row_zero_point);
  }
}

bool are_axes(const Axes& axes) {
  if (axes.size() > 16) return false;
  int64_t size = 1;
  for (const Axis& axis : axes) {
    if (axis.size() > 16) return false;
    for (const Factor& factor : axis) {
      if (factor.is_symbol()) continue;
      if (!is_size(factor.size) || size > kLargestSize / factor.size) return false;
      size *= factor.size;
    }
  }
  return true;
}

// A table has one sequence axis; selections and unknown sizes have no place in it.
bool is_recipe(const PositionRecipe& recipe) {
  if (recipe.graph == nullptr || recipe.feeds.size() != recipe.graph->graph().inputs.size() || recipe.graph->graph().outputs.size() != 1)
    return false;
  if (!are_axes(recipe.axes) || recipe.form.buffer < 0 || recipe.form.buffer > kMostBuffer) return false;
  for (const Axis& axis : recipe.axes) {
    for (const Factor& factor : axis) {
      const bool known =
          !factor.is_symbol() || factor.symbol == Symbol::kBatch || factor.symbol == Symbol::kNew || factor.symbol == Symbol::kTotal;
      if (!known) return false;
    }
  }
  if (holds(recipe.axes, Symbol::kNew) && holds(recipe.axes, Symbol::kTotal)) return false;
  return std::ranges::all_of(recipe.feeds, [](const PositionFeed& feed) {
    return are_axes(feed.axes) && feed.first >= 0 && feed.last >= feed.first && feed.last <= static_cast<int64_t>(feed.axes.size());
  });
}

int64_t width_of(const PositionRecipe& recipe) {
  int64_t width = 1;
  for (const Axis& axis : recipe.axes) width *= row_size(axis);
  return width;
}

void check_table(const PlanTable& table, size_t i) {
  require(is_size(table.size) && has_whole_bytes(table.dtype) && table.limit >= 0,
          "table t{} is {}[{}] up to {} positions; expected whole bytes and 1 to {} elements", i, dtype_name(table.dtype), table.size,
          table.limit, kLargestSize);
  require(table.recipe == nullptr || is_recipe(*table.recipe), "the recipe of table t{} does not depend on the position alone", i);
  const bool looks_up = table.lookup.defined();
  if (looks_up) {
    const bool rows = table.lookup.rank() == 2 && table.lookup.dtype() == DType::kF32 && is_size(table.lookup.dim(1));
    require(rows, "table t{} looks up {} {}; expected f32 with two dimensions", i, dtype_name(table.lookup.dtype()),
            to_string(table.lookup.dims()));
    require(table.recipe == nullptr || (table.recipe->dtype == DType::kI64 && width_of(*table.recipe) == 1),
            "table t{} looks up rows by a recipe of more than one i64 per position", i);
  }
  require(looks_up || table.recipe != nullptr, "table t{} has neither rows nor a recipe", i);
  const DType made = looks_up ? DType::kF32 : table.recipe->dtype;
  const DType dtype = made == DType::kBool ? DType::kF32 : made;
  const int64_t width = looks_up ? table.lookup.dim(1) : width_of(*table.recipe);
  require(table.dtype == dtype && (table.elements.empty() || dtype == DType::kF32), "table t{} is {}; expected {}", i,
          dtype_name(table.dtype), dtype_name(table.elements.empty() ? dtype : DType::kF32));
  const int64_t size = table.elements.empty() ? width : static_cast<int64_t>(table.elements.size());
  require(table.size == size, "table t{} has {} elements; expected {}", i, table.size, size);
  for (const int32_t element : table.elements)
    require(element >= 0 && element < width, "table t{} picks element {} of {}", i, element, width);
}

void check_tables(const Plan& plan) {
  for (size_t i = 0; i < plan.tables.size(); ++i) check_table(plan.tables[i], i);
  for (size_t i = 0; i < plan.tables_beyond.size(); ++i) check_table(plan.tables_beyond[i], i);
  require(plan.switch_after == 0 || (plan.switch_after > 0 && plan.tables_beyond.size() == plan.tables.size()),
          "tables are switched after {} tokens, with {} tables before and {} beyond", plan.switch_after, plan.tables.size(),
          plan.tables_beyond.size());
  for (size_t i = 0; i < plan.tables_beyond.size(); ++i) {
    require(i < plan.tables.size(), "there are {} tables beyond the length switch; expected {}", plan.tables_beyond.size(),
            plan.tables.size());
    const PlanTable &before = plan.tables[i], &beyond = plan.tables_beyond[i];
    require(before.size == beyond.size && before.dtype == beyond.dtype, "table t{} is {}[{}] beyond the length switch; expected {}[{}]", i,
            dtype_name(beyond.dtype), beyond.size, dtype_name(before.dtype), before.size);
  }
}

bool is_rounding(std::span<const Rounding> all) {
  return all.size() <= kMostRoundings && std::ranges::all_of(all, [](const Rounding& r) {
           return std::isnormal(r.step) && std::isfinite(r.unit) && r.low <= 0 && r.high >= 0 && std::isfinite(r.high - r.low);
         });
}

void check_attends(const Plan& plan) {
  for (size_t i = 0; i < plan.attends.size(); ++i) {
    const AttentionSpec& a = plan.attends[i];
    const bool sizes = is_size(a.n_heads) && is_size(a.n_kv_heads) && is_size(a.key_dim) && is_size(a.value_dim) &&
                       a.n_heads * std::max(a.key_dim, a.value_dim) <= kLargestSize && a.n_kv_heads <= a.n_heads;
    require(sizes, "attention {} has {} heads over {} key heads, of {} and {} elements; expected 1 to {} elements in all heads", i,
            a.n_heads, a.n_kv_heads, a.key_dim, a.value_dim, kLargestSize);
    const auto n = static_cast<size_t>(a.n_heads);
    const bool heads =
        a.kv_head_of.empty()
            ? a.n_heads % a.n_kv_heads == 0
            : a.kv_head_of.size() == n && std::ranges::all_of(a.kv_head_of, [&](int32_t head) { return head >= 0 && head < a.n_kv_heads; });
    require(heads, "attention {} assigns {} heads to {} key heads, {} of them by number", i, a.n_heads, a.n_kv_heads, a.kv_head_of.size());
    const bool biases = (a.slopes.empty() || a.slopes.size() == n) && (a.sinks.empty() || a.sinks.size() == n) &&
                        a.distance_bias.size() % n == 0 && a.window >= 0 && std::abs(a.first_distance) <= kLargestSize;
    require(biases, "attention {} of {} heads has {} slopes, {} sinks, {} biases by distance from {} on and a window of {}", i, n,
            a.slopes.size(), a.sinks.size(), a.distance_bias.size(), a.first_distance, a.window);
    require(is_rounding(a.score_roundings) && is_rounding(a.weight_roundings),
            "attention {} rounds scores {} and weights {} times; expected at most {} roundings with normal steps", i,
            a.score_roundings.size(), a.weight_roundings.size(), kMostRoundings);
    require(a.weight_roundings.empty() || a.sinks.empty(), "attention {} rounds weights and has sinks; expected one of them", i);
    require(!a.from_source || !plan.source_inputs.empty(), "attention {} reads a source; the plan has none", i);
  }
}

}  // namespace

void check_plan(const Plan& plan) {
  check_values(plan);
  check_weights(plan);
  check_tables(plan);
  check_attends(plan);
  OpCheck(plan).run();
}

}  // namespace kvik::native
