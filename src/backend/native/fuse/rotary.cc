// Rotary embeddings written as primitive operations: by halves or interleaved, of whole heads or of their first part.
#include <algorithm>
#include <array>
#include <map>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"
#include "backend/native/fuse/rotation.h"
#include "backend/native/tables/table_rows.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

// Tables by the elements that are needed of them.
class Angles {
 public:
  explicit Angles(Plan& plan) : plan_(plan) {}

  // True if both have the same numbers at all probed positions.
  bool equal(const std::vector<TableElement>& a, const std::vector<TableElement>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(a[i] == b[i]) && !equal(a[i], b[i])) return false;
    }
    return true;
  }

  // A part of a table, or a new one.
  Input input(const std::vector<TableElement>& elements, bool negative) {
    const auto n = static_cast<int64_t>(elements.size());
    const TableElement first = elements.front();
    bool in_order = !negative;
    for (int64_t i = 0; i < n; ++i) in_order = in_order && elements[static_cast<size_t>(i)] == TableElement{first.table, first.element + i};
    if (in_order) return {Input::Kind::kTable, first.table, first.element, n};
    std::vector<int64_t> key{negative ? 1 : 0};
    for (const TableElement& e : elements) {
      if (e.table != first.table) return {};
      key.push_back(e.element);
    }
    key.push_back(first.table);
    const auto [known, fresh] = made_.try_emplace(key, 0);
    if (fresh) known->second = gather(first.table, elements, negative);
    return {Input::Kind::kTable, known->second, 0, n};
  }

 private:
  static constexpr std::array<std::pair<int64_t, int64_t>, 3> kLookedAt = {{{0, 24}, {117, 4}, {1021, 3}}};  // first position, count

  bool equal(const TableElement& a, const TableElement& b) {
    const std::vector<Tensor>&rows_a = rows(a.table), &rows_b = rows(b.table);
    const int64_t size_a = table(a.table).size, size_b = table(b.table).size;
    if (rows_a.empty() || rows_b.empty()) return false;
    for (size_t part = 0; part < std::min(rows_a.size(), rows_b.size()); ++part) {
      const std::span<const float> x = rows_a[part].data<float>(), y = rows_b[part].data<float>();
      const int64_t count = std::min(static_cast<int64_t>(x.size()) / size_a, static_cast<int64_t>(y.size()) / size_b);
      for (int64_t i = 0; i < count; ++i) {
        if (x[static_cast<size_t>(i * size_a + a.element)] != y[static_cast<size_t>(i * size_b + b.element)]) return false;
      }
    }
    return true;
  }

  const PlanTable& table(int32_t i) const { return plan_.tables[static_cast<size_t>(i)]; }

  const std::vector<Tensor>& rows(int32_t i) {
    const auto [known, fresh] = rows_.try_emplace(i);
    if (!fresh) return known->second;
    for (const auto& [first, count] : kLookedAt) {
      const int64_t limit = table(i).limit;
      const int64_t last = limit > 0 ? std::min(limit, first + count) : first + count;
      if (last <= first) break;
      try {
        known->second.push_back(table_rows(table(i), first, last - first));
      } catch (const Error&) {  // the table is shorter than declared
        break;
      }
    }
    return known->second;
  }

  int gather(int32_t from, const std::vector<TableElement>& elements, bool negative) {
    PlanTable made = table(from);
    std::vector<int32_t> wanted;
    for (const TableElement& e : elements) {
      const auto at = static_cast<size_t>(e.element);
      wanted.push_back(made.elements.empty() ? static_cast<int32_t>(at) : made.elements[at]);
    }
    made.size = static_cast<int64_t>(wanted.size());
    made.elements = std::move(wanted);
    made.negative = made.negative != negative;
    plan_.tables.push_back(std::move(made));
    return static_cast<int>(plan_.tables.size() - 1);
  }

  Plan& plan_;
  std::map<int32_t, std::vector<Tensor>> rows_;
  std::map<std::vector<int64_t>, int> made_;
};

Move gathered(const std::vector<int64_t>& from) {
  Move move;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto to = static_cast<int64_t>(i);
    if (!move.runs.empty() && move.runs.back().from + move.runs.back().count == from[i]) {
      ++move.runs.back().count;
    } else {
      move.runs.push_back({0, from[i], to, 1});
    }
  }
  return move;
}

// Repeated heads are rotated once, before they are repeated.
bool repeats(std::vector<int64_t> from) {
  std::sort(from.begin(), from.end());
  return std::adjacent_find(from.begin(), from.end()) != from.end();
}

bool may_end_rotary(const Op& op) {
  const BinaryOp* binary = op.as<BinaryOp>();
  return op.as<Move>() != nullptr || (binary != nullptr && (binary->op == Binary::kAdd || binary->op == Binary::kSub));
}

bool match_rotary(Rewriter& rewriter, LinearForms& forms, Angles& angles, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  if (op.out.size() != 1 || !may_end_rotary(op) || !forms.is_turned(op.out.front())) return false;
  const std::optional<LinearForm> form = forms.of(op.out.front());
  const std::optional<Rotation> rotation = form ? as_rotation(*form) : std::nullopt;
  if (!rotation || repeats(rotation->from) || !angles.equal(rotation->cos[0], rotation->cos[1]) ||
      !angles.equal(rotation->sin[0], rotation->sin[1]))
    return false;
  const Input cos = angles.input(rotation->cos[0], false), sin = angles.input(rotation->sin[0], rotation->negative);
  if (!cos || !sin) return false;
  Move move = gathered(rotation->from);
  Input x{Input::Kind::kValue, form->source, move.runs.front().from, static_cast<int64_t>(rotation->from.size())};
  if (move.runs.size() > 1) x = rewriter.insert_before(i, std::move(move), {plan.whole(form->source)}, x.size);
  rewriter.become(i, RotaryOp{rotation->n_heads, rotation->head_dim, rotation->n_pairs, rotation->interleaved}, {x, cos, sin});
  return true;
}

}  // namespace

int fuse_rotary(Plan& plan) {
  LinearForms forms(plan);
  Angles angles(plan);
  // Outermost first: the unrotated elements of a head belong to it.
  return rewrite_each_from_end(plan, "rotary", [&](Rewriter& rewriter, OpIndex i) { return match_rotary(rewriter, forms, angles, i); });
}

}  // namespace kvik::native
