#include "backend/native/tables/position_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <unordered_map>

#include "backend/native/probe/arrange.h"
#include "backend/native/probe/bisect.h"

namespace kvik::native {
namespace {

using onnx::ValueId;

constexpr int64_t kContextIfUnknown = 8192;
constexpr int64_t kMostNumbersAtOnce = int64_t{1} << 19;  // total evaluated to find the limit and to refute
constexpr int64_t kFewestPositions = 4500;                // but at least so many: scaled rotations often change beyond 4096

// The sequence axis of a table: of the rows themselves, of the keys, or none if the program is for one token at a time.
enum class Along { kRows, kKeys, kOneToken };

// Evaluates a value that is claimed to depend on the position alone.
class PositionRows {
 public:
  static Expected<PositionRows> of(const Labels& labels, ValueId value, Axes axes) {
    PositionRows rows(labels, value, std::move(axes));
    KVIK_TRY(rows.along_, rows.along());
    return rows;
  }

  int64_t row_elements() const { return native::row_elements(axes_); }
  Along along_which() const { return along_; }
  ValueId value() const { return value_; }
  const Axes& axes() const { return axes_; }

  // [batch][positions][elements] as computed at these sizes; the first position is first_position(sizes).
  Expected<Evaluated<std::vector<float>>> at(Probe& probe) const {
    const std::array<Symbol, 2> front = {Symbol::kBatch, along_ == Along::kKeys ? Symbol::kTotal : Symbol::kNew};
    KVIK_TRY(const Evaluated<Tensor> found, probe.try_get(value_));
    if (!found) return Evaluated<std::vector<float>>{{}, found.failure};
    // A slice of a table that ends before these positions is shorter, not wrong.
    if (found->dims() != probe.sizes().of(axes_))
      return Evaluated<std::vector<float>>{{}, fmt::format("{} has the shape {} there", name(), kvik::to_string(found->dims()))};
    KVIK_TRY(std::vector<float> rows, arrange(*found, axes_, probe.sizes(), front));
    return evaluated(std::move(rows));
  }
  int64_t first_position(const Sizes& sizes) const { return along_ == Along::kKeys ? 0 : sizes.past; }
  int64_t n_positions(const Sizes& sizes) const { return along_ == Along::kKeys ? sizes.total() : sizes.fresh; }
  bool has_batch() const { return holds(axes_, Symbol::kBatch); }

 private:
  PositionRows(const Labels& labels, ValueId value, Axes axes) : labels_(&labels), value_(value), axes_(std::move(axes)) {}

  Expected<Along> along() const {
    for (const Axis& axis : axes_) {
      for (const Factor& factor : axis) {
        const bool known =
            !factor.is_symbol() || factor.symbol == Symbol::kBatch || factor.symbol == Symbol::kNew || factor.symbol == Symbol::kTotal;
        if (!known) return refuse(fmt::format("{} of axes {} does not depend only on the row's position", name(), to_string(axes_)));
      }
    }
    const bool rows = holds(axes_, Symbol::kNew), keys = holds(axes_, Symbol::kTotal);
    if (rows && keys) return refuse(fmt::format("{} relates rows to keys outside of attention", name()));
    if (!rows && !keys && !labels_->one_token) return refuse(fmt::format("{} has no axis of positions", name()));
    return rows ? Along::kRows : keys ? Along::kKeys : Along::kOneToken;
  }

  std::string name() const { return fmt::format("the auxiliary value '{}'", labels_->flat->graph.name_of(value_)); }

  const Labels* labels_;
  ValueId value_;
  Axes axes_;
  Along along_ = Along::kRows;
};

bool same_number(float a, float b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::abs(a - b) <= 1e-6f + 1e-5f * std::max(std::abs(a), std::abs(b));
}

// Tries to show that a value does not depend on the position alone.
class Refutation {
 public:
  Refutation(CompileState& state, const PositionRows& rows) : state_(state), rows_(rows) {}

  // The number of positions the value is defined for, up to the context's; nothing: no end was found.
  Expected<std::optional<int64_t>> run() {
    KVIK_TRY(const std::optional<int64_t> limit, find_limit());
    constexpr std::array<std::array<int64_t, 2>, 8> kSizes = {{{0, 6}, {5, 1}, {3, 4}, {11, 5}, {40, 1}, {30, 9}, {0, 1}, {0, 41}}};
    const int64_t last = std::min(wanted(), limit.value_or(wanted()));
    for (const auto& [past, fresh] : kSizes) {
      if (past + fresh > last) continue;
      KVIK_CHECK(compare({.past = past, .fresh = fresh, .batch = 2}));
    }
    KVIK_CHECK(compare_far(limit));
    return limit;
  }

 private:
  int64_t wanted() const { return state_.options.context > 0 ? state_.options.context : kContextIfUnknown; }

  int64_t many() const { return std::max(kFewestPositions, kMostNumbersAtOnce / std::max<int64_t>(1, rows_.row_elements())); }

  Expected<bool> can_be_evaluated(int64_t total) {
    if (!fits_buffer(state_.labels, total)) return false;
    KVIK_TRY(const Sizes sizes, sizes_at(state_.labels, {.past = total - 1}));
    KVIK_TRY(const auto found, rows_.at(state_.probes.at(sizes)));
    if (!found) failure_ = found.failure;
    return found.value.has_value();
  }

  // Without a past, all rows are computed together; with a past, only the last one.
  int64_t largest_tried() const {
    const bool together = !state_.labels.flat->has_past || rows_.along_which() == Along::kKeys;
    return together ? std::min(wanted(), many()) : wanted();
  }

  Expected<std::optional<int64_t>> find_limit() {
    int64_t bad = largest_tried();
    KVIK_TRY(const bool has_no_end, can_be_evaluated(bad));
    if (has_no_end) return bad < wanted() ? std::optional(bad) : std::nullopt;
    int64_t good = 0;
    for (int64_t step = 1; step < bad && good == 0; step *= 2) {
      KVIK_TRY(const bool is_good, can_be_evaluated(bad / (2 * step) + 1));
      if (is_good) good = bad / (2 * step) + 1;
    }
    if (good == 0) return refuse(fmt::format("the auxiliary value '{}' cannot be evaluated at any position ({})", name(), failure_));
    KVIK_TRY(const int64_t last, bisect(good, bad, [&](int64_t total) { return can_be_evaluated(total); }));
    return last;
  }

  // A table whose numbers change with the total length shows it where early positions are computed beside late ones.
  Expected<> compare_far(std::optional<int64_t> limit) {
    const int64_t last = std::min(wanted(), limit.value_or(wanted()));
    const int64_t most = many();
    if (!state_.labels.one_token) KVIK_CHECK(compare({.fresh = std::min(last, most)}));
    if (last > most && state_.labels.flat->has_past && !state_.labels.one_token) KVIK_CHECK(compare({.past = last - 64, .fresh = 64}));
    return compare({.past = last - 1});
  }

  Expected<> compare(const Positions& positions) {
    KVIK_TRY(const Sizes sizes, sizes_at(state_.labels, positions));
    KVIK_TRY(const auto evaluation, rows_.at(state_.probes.at(sizes)));
    if (!evaluation) return refuse(evaluation.failure);
    const std::vector<float>& found = *evaluation;
    const int64_t n = rows_.n_positions(sizes), width = rows_.row_elements(), first = rows_.first_position(sizes);
    const int64_t batch = rows_.has_batch() ? sizes.batch : 1;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < n; ++i) KVIK_CHECK(compare_row(found.data() + (b * n + i) * width, first + i, sizes));
    }
    return {};
  }

  Expected<> compare_row(const float* row, int64_t position, const Sizes& sizes) {
    const int64_t width = rows_.row_elements();
    const auto [place, is_new] = place_of_.try_emplace(position, known_.size());
    if (is_new) {
      known_.insert(known_.end(), row, row + width);
      return {};
    }
    const float* known = known_.data() + place->second;
    for (int64_t i = 0; i < width; ++i) {
      if (same_number(row[i], known[i])) continue;
      return refuse(
          fmt::format("the auxiliary value '{}' does not depend only on the position: at position {} it is both {} and {} (with {} past "
                      "and {} new tokens)",
                      name(), position, known[i], row[i], sizes.past, sizes.fresh));
    }
    return {};
  }

  std::string_view name() const { return state_.labels.flat->graph.name_of(rows_.value()); }

  CompileState& state_;
  const PositionRows& rows_;
  // Only for probed positions, because a context may be of any length.
  std::unordered_map<int64_t, size_t> place_of_;  // by position, in known_
  std::vector<float> known_;
  std::string failure_;
};

}  // namespace

Expected<PositionTable> make_table(CompileState& state, ValueId value, const Axes& axes) {
  PositionTable table;
  table.name = state.labels.flat->graph.name_of(value);
  table.dims = row_dims(axes);
  KVIK_TRY(const Tensor sample, state.probes.triple()[0]->get(value));
  table.dtype = sample.dtype();
  table.value = value;
  table.axes = axes;
  KVIK_TRY(const PositionRows rows, PositionRows::of(state.labels, value, axes));
  KVIK_TRY(const std::optional<int64_t> limit, Refutation(state, rows).run());
  table.limit = limit.value_or(0);
  return table;
}

}  // namespace kvik::native
