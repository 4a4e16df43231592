#include "backend/native/tables/table_rows.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "backend/native/probe/arrange.h"
#include "backend/native/probe/probe.h"
#include "backend/native/probe/sizes.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

constexpr int64_t kFirstRows = 256;  // minimum number computed together
constexpr int64_t kMostRows = 4096;  // and maximum, so that the step that needs them does not wait long

Tensor feed_of(const PositionRecipe& recipe, const PositionFeed& feed, const Sizes& sizes) {
  const FeedForm form{recipe.encodes, recipe.form.has_past, recipe.form.one_position};
  switch (feed.kind) {
    case PositionFeed::Kind::kPositions: return take(auxiliary_feed(form, nullptr, sizes));
    case PositionFeed::Kind::kPort: return take(auxiliary_feed(form, &feed.port, sizes));
    case PositionFeed::Kind::kTokens: return as_declared(feed.port, ordinary_tokens(recipe.vocab, sizes, 1));
    case PositionFeed::Kind::kSize: return Tensor::scalar(element_count(sizes.of(feed.axes)));
    case PositionFeed::Kind::kShape: break;
  }
  const Dims dims = sizes.of(feed.axes);
  return Tensor::of<int64_t>({feed.last - feed.first}, std::vector<int64_t>(dims.begin() + feed.first, dims.begin() + feed.last));
}

// One call of the recipe's graph: [positions][elements of a row], from first_position() on.
class RecipeCall {
 public:
  RecipeCall(const PositionRecipe& recipe, const Sizes& sizes)
      : recipe_(recipe), sizes_(sizes), by_key_(holds(recipe.axes, Symbol::kTotal)) {}

  int64_t first_position() const { return by_key_ ? 0 : sizes_.past; }

  std::vector<float> run() const {
    std::vector<Tensor> feeds;
    for (const PositionFeed& feed : recipe_.feeds) feeds.push_back(feed_of(recipe_, feed, sizes_));
    WorkBudget budget;
    const ValueOf nothing = [](onnx::ValueId) -> Tensor { throw Error(Code::kInternal, "a position table reads outside of its graph"); };
    const Tensor made = run_graph(recipe_.graph->graph(), feeds, nothing, budget).at(0);
    // A slice of a table that ends before these positions is shorter, not wrong.
    if (made.dims() != sizes_.of(recipe_.axes))
      throw Error(Code::kTooLarge, fmt::format("a position table has the shape {} there", kvik::to_string(made.dims())));
    const std::array<Symbol, 2> front = {Symbol::kBatch, by_key_ ? Symbol::kTotal : Symbol::kNew};
    return take(arrange(made, recipe_.axes, sizes_, front));
  }

 private:
  const PositionRecipe& recipe_;
  Sizes sizes_;
  bool by_key_;
};

// Elements in the value's own type.
Tensor typed(const std::vector<float>& numbers, Dims dims, DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kBool) return Tensor::of<float>(std::move(dims), numbers);  // booleans are 1 and 0 in a plan
  Tensor result(dtype, std::move(dims));
  const auto fill = [&](auto target) {
    using T = std::remove_reference_t<decltype(target[0])>;
    for (size_t i = 0; i < target.size(); ++i) target[i] = static_cast<T>(numbers[i]);
  };
  switch (dtype) {
    case DType::kI64: fill(result.mutable_data<int64_t>()); break;
    case DType::kI32: fill(result.mutable_data<int32_t>()); break;
    case DType::kU8: fill(result.mutable_data<uint8_t>()); break;
    case DType::kI8: fill(result.mutable_data<int8_t>()); break;
    default: throw Error(Code::kUnsupported, fmt::format("a position table of {} is not supported", dtype_name(dtype)));
  }
  return result;
}

Tensor recipe_rows(const PositionRecipe& recipe, int64_t first, int64_t count) {
  const int64_t width = row_elements(recipe.axes);
  std::vector<float> numbers;
  const auto append = [&](int64_t from, int64_t n) {
    const RecipeCall call(recipe, take(sizes_at(recipe.form, {.past = from, .fresh = n})));
    const std::vector<float> all = call.run();
    const auto begin = all.begin() + (from - call.first_position()) * width;
    numbers.insert(numbers.end(), begin, begin + n * width);
  };
  if (recipe.form.one_token && !holds(recipe.axes, Symbol::kTotal)) {
    for (int64_t i = 0; i < count; ++i) append(first + i, 1);
  } else if (count > 0) {
    append(first, count);
  }
  return typed(numbers, {count, width}, recipe.dtype);
}

// Rows of a constant, by the index that the recipe computes for each position, or by the position itself.
Tensor looked_up(const PlanTable& table, int64_t first, int64_t count) {
  const int64_t width = table.lookup.dim(1);
  Tensor rows(DType::kF32, {count, width});
  const Tensor numbers = table.recipe == nullptr ? Tensor() : recipe_rows(*table.recipe, first, count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = numbers.defined() ? numbers.data<int64_t>()[static_cast<size_t>(i)] : first + i;
    if (at < 0 || at >= table.lookup.dim(0))
      throw Error(Code::kTooLarge,
                  fmt::format("the table '{}' has {} rows and ends before position {}", table.name, table.lookup.dim(0), at));
    std::copy_n(table.lookup.data<float>().begin() + at * width, width, rows.mutable_data<float>().begin() + i * width);
  }
  return rows;
}

Tensor selected(const PlanTable& table, const Tensor& all, int64_t count) {
  const auto n = static_cast<int64_t>(table.elements.size());
  const int64_t width = all.size() / std::max<int64_t>(1, count);
  Tensor rows(DType::kF32, {count, n});
  const std::span<float> to = rows.mutable_data<float>();
  const std::span<const float> from = all.data<float>();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t e = 0; e < n; ++e) {
      const float x = from[static_cast<size_t>(i * width + table.elements[static_cast<size_t>(e)])];
      to[static_cast<size_t>(i * n + e)] = table.negative ? -x : x;
    }
  }
  return rows;
}

}  // namespace

Tensor table_rows(const PlanTable& table, int64_t first, int64_t count) {
  if (table.limit > 0 && first + count > table.limit)
    throw Error(Code::kTooLarge,
                fmt::format("position {} of '{}' was requested; the graph defines {}", first + count - 1, table.name, table.limit));
  const Tensor all = table.lookup.defined() ? looked_up(table, first, count) : recipe_rows(*table.recipe, first, count);
  return table.elements.empty() ? all : selected(table, all, count);
}

PositionTables::PositionTables(const std::vector<PlanTable>& tables) {
  for (const PlanTable& table : tables)
    rows_.push_back({&table, static_cast<int64_t>(storage_bytes(table.dtype, table.size)), table.limit, 0, {}});
}

bool PositionTables::covers(std::span<const int> tables, int64_t end) const {
  return std::ranges::all_of(tables, [&](int t) { return rows_[static_cast<size_t>(t)].count >= end; });
}

size_t PositionTables::size_bytes() const {
  size_t total = 0;
  for (const Rows& rows : rows_) total += rows.memory.size_bytes();
  return total;
}

void PositionTables::append(Rows& rows, std::span<const std::byte> bytes) {
  const auto used = static_cast<size_t>(rows.count * rows.row_bytes);
  if (used + bytes.size() > rows.memory.size_bytes()) {
    AlignedBuffer larger(std::max(used + bytes.size(), 2 * used));
    std::copy_n(rows.memory.data(), used, larger.data());
    rows.memory = std::move(larger);
  }
  std::copy(bytes.begin(), bytes.end(), rows.memory.data() + used);
}

// Up to `end`, or to where the graph's own numbers end; at least the rows that are needed, or it throws.
void PositionTables::compute(Rows& rows, int64_t end) {
  const auto add = [&](int64_t count) {
    const Tensor made = table_rows(*rows.table, rows.count, count);
    append(rows, made.bytes());
    rows.count += count;
  };
  // Without a past all rows are computed together, from the first on.
  const bool together = rows.table->recipe != nullptr && !rows.table->recipe->form.has_past;
  const int64_t stride = std::max(kFirstRows, together ? rows.count : std::min(rows.count, kMostRows));
  int64_t count = std::max(end - rows.count, stride);
  if (rows.limit > 0) count = std::min(count, rows.limit - rows.count);
  const int64_t needed = std::min(count, end - rows.count);
  try {
    return add(count);
  } catch (const Error&) {
    if (count <= needed) throw;
  }
  add(needed);
  int64_t good = 0, bad = count - needed;  // further rows
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    try {
      table_rows(*rows.table, rows.count, middle);
      good = middle;
    } catch (const Error&) { bad = middle; }
  }
  rows.limit = rows.count + good;
  if (good > 0) add(good);
}

void PositionTables::extend(std::span<const int> tables, int64_t end) {
  for (const int t : tables) {
    Rows& rows = rows_[static_cast<size_t>(t)];
    if (rows.count >= end) continue;
    if (rows.limit > 0 && end > rows.limit)
      throw Error(Code::kTooLarge, fmt::format("position {} was requested; the model's own tables have {}", end - 1, rows.limit));
    compute(rows, end);
  }
}

}  // namespace kvik::native
