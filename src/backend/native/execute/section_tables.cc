#include "backend/native/execute/section_tables.h"

#include <algorithm>

#include "kvik/error.h"

namespace kvik::native {
namespace {

// The positions that rows have, of sequences up to Plan::switch_after and of longer ones.
std::array<int64_t, 2> ends_of(std::span<const RunRow> rows) {
  std::array<int64_t, 2> ends = {0, 0};
  for (const RunRow& row : rows) ends[row.beyond ? 1 : 0] = std::max(ends[row.beyond ? 1 : 0], row.position + 1);
  return ends;
}

}  // namespace

SectionTables::SectionTables(const Plan& plan)
    : tables_{PositionTables(plan.tables), PositionTables(plan.tables_beyond)}, has_beyond_(!plan.tables_beyond.empty()) {
  for (const Op& op : plan.ops) {
    std::vector<int>& used = used_[static_cast<size_t>(op.section)];
    for (const Input& input : op.in) {
      if (input.is_table() && std::ranges::find(used, input.index) == used.end()) used.push_back(input.index);
    }
  }
}

void SectionTables::extend(Op::Section section, std::span<const RunRow> rows) {
  const std::array<int64_t, 2> ends = ends_of(rows);
  for (size_t i = 0; i < 2; ++i) {
    if (ends[i] > 0) tables_[i].extend(used_[static_cast<size_t>(section)], ends[i]);
  }
}

bool SectionTables::cover(Op::Section section, std::span<const RunRow> rows) const {
  const std::array<int64_t, 2> ends = ends_of(rows);
  for (size_t i = 0; i < 2; ++i)
    if (ends[i] > 0 && !tables_[i].covers(used_[static_cast<size_t>(section)], ends[i])) return false;
  return true;
}

void SectionTables::require(Op::Section section, std::span<const RunRow> rows) const {
  if (!cover(section, rows)) throw Error(Code::kInternal, "a run was not prepared: position tables end before its rows");
}

}  // namespace kvik::native
