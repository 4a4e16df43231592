#pragma once

#include <array>
#include <span>
#include <vector>

#include "backend/native/execute/call.h"
#include "backend/native/plan/plan.h"
#include "backend/native/tables/table_rows.h"

namespace kvik::native {

// The position tables of a plan for each section. Each section has its own, because a source may be longer than the target.
class SectionTables {
 public:
  explicit SectionTables(const Plan& plan);  // `plan` must outlive it

  void extend(Op::Section section, std::span<const RunRow> rows);
  bool cover(Op::Section section, std::span<const RunRow> rows) const;
  // Throws Error(kInternal) if extend() was not called for these rows.
  void require(Op::Section section, std::span<const RunRow> rows) const;

  bool has(bool beyond) const { return !beyond || has_beyond_; }
  const PositionTables& rows(bool beyond) const { return tables_[beyond ? 1 : 0]; }
  const std::byte* row(int table, const RunRow& row) const { return rows(row.beyond).row(table, row.position); }

 private:
  std::array<PositionTables, 2> tables_;  // up to Plan::switch_after, and beyond
  std::array<std::vector<int>, 3> used_;  // by section
  bool has_beyond_ = false;
};

}  // namespace kvik::native
