#pragma once

#include <span>
#include <vector>

#include "backend/native/plan/plan.h"
#include "base/aligned_buffer.h"

// Rows of position tables. In: the tables of a plan, each with its recipe. Out: numbers, for as many positions as a run needs. Nothing is
// computed during a run, and no size depends on the context that a config file claims.
namespace kvik::native {

// [count, size of a row] for positions first … first + count - 1. Throws Error(kTooLarge) for positions beyond the table's limit.
Tensor table_rows(const PlanTable& table, int64_t first, int64_t count);

// The rows of all tables of a plan that were computed so far. Used by one thread at a time.
class PositionTables {
 public:
  explicit PositionTables(const std::vector<PlanTable>& tables);  // must outlive it

  // Computes the rows of these tables for positions below `end` (and some more, so that few calls compute anything). Called before a run,
  // never during one. Throws Error(kTooLarge) beyond a table's limit; rows computed before stay valid.
  void extend(std::span<const int> tables, int64_t end);
  bool covers(std::span<const int> tables, int64_t end) const;

  int64_t n_rows(int table) const { return rows_[static_cast<size_t>(table)].count; }  // so far
  int64_t row_bytes(int table) const { return rows_[static_cast<size_t>(table)].row_bytes; }
  // For a position below the `end` of extend(). Valid until the next extend().
  const std::byte* row(int table, int64_t position) const {
    const Rows& rows = rows_[static_cast<size_t>(table)];
    return rows.memory.data() + position * rows.row_bytes;
  }
  size_t size_bytes() const;

 private:
  struct Rows {
    const PlanTable* table = nullptr;
    int64_t row_bytes = 0;
    int64_t limit = 0;  // positions; 0: no limit is known
    int64_t count = 0;  // positions computed
    AlignedBuffer memory;
  };
  static void append(Rows& rows, std::span<const std::byte> bytes);
  static void compute(Rows& rows, int64_t end);

  std::vector<Rows> rows_;
};

}  // namespace kvik::native
