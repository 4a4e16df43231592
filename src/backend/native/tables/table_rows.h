#pragma once

#include <span>
#include <vector>

#include "backend/native/plan/plan.h"
#include "base/aligned_buffer.h"

// Rows of position tables. In: the tables of a plan, each with the recipe it is computed by. Out: numbers, for as many positions as a run
// needs. Nothing is computed while a run is under way, and nothing is sized by the context that a config file claims.
namespace kvik::native {

// [count, size of a row] for positions first … first + count - 1. Throws Error(kTooLarge) beyond what the table is defined for.
Tensor table_rows(const PlanTable& table, int64_t first, int64_t count);

// The rows of all tables of a plan so far. One thread at a time.
class PositionTables {
 public:
  explicit PositionTables(const std::vector<PlanTable>& tables);  // which outlive it

  // Computes the rows of these tables for positions below `end` (and some more, so that few calls compute anything). Before a run, never
  // during one. Throws Error(kTooLarge) beyond a table's limit, and has then changed nothing that row() gives.
  void extend(std::span<const int> tables, int64_t end);
  bool covers(std::span<const int> tables, int64_t end) const;

  int64_t n_rows(int table) const { return rows_[static_cast<size_t>(table)].count; }  // so far
  int64_t row_bytes(int table) const { return rows_[static_cast<size_t>(table)].row_bytes; }
  // Of a position below what was asked of extend(). Holds until the next extend().
  const std::byte* row(int table, int64_t position) const {
    const Rows& rows = rows_[static_cast<size_t>(table)];
    return rows.memory.data() + position * rows.row_bytes;
  }
  size_t size_bytes() const;

 private:
  struct Rows {
    const PlanTable* table = nullptr;
    int64_t row_bytes = 0;
    int64_t limit = 0;  // positions; 0: none is known
    int64_t count = 0;  // positions computed
    AlignedBuffer memory;
  };
  static void append(Rows& rows, std::span<const std::byte> bytes);
  static void compute(Rows& rows, int64_t end);

  std::vector<Rows> rows_;
};

}  // namespace kvik::native
