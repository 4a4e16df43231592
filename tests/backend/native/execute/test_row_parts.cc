#include <gtest/gtest.h>

#include "backend/native/execute/cpu/row_parts.h"

namespace kvik::native {
namespace {

// Rows of sequences 0, 1, ... that have so many each.
std::vector<RunRow> rows_of(std::initializer_list<int> lengths) {
  std::vector<RunRow> rows;
  int32_t sequence = 0;
  for (const int length : lengths) {
    for (int p = 0; p < length; ++p) rows.push_back({p, sequence});
    ++sequence;
  }
  return rows;
}

std::vector<size_t> ends_of(const std::vector<RunRow>& rows, int n_parts) {
  std::vector<RowPart> parts;
  cut_rows(rows, n_parts, parts);
  std::vector<size_t> ends;
  size_t next = 0;
  for (const RowPart& part : parts) {
    EXPECT_EQ(part.begin, next);
    next = part.end;
    ends.push_back(part.end);
  }
  return ends;
}

TEST(RowParts, SingleStepsAreCutEvenly) {
  EXPECT_EQ(ends_of(rows_of({1, 1, 1, 1, 1, 1, 1, 1}), 2), (std::vector<size_t>{4, 8}));
  EXPECT_EQ(ends_of(rows_of({1, 1, 1, 1, 1, 1, 1}), 3), (std::vector<size_t>{3, 5, 7}));
}

TEST(RowParts, ASequenceIsNeverCut) {
  EXPECT_EQ(ends_of(rows_of({3, 5}), 4), (std::vector<size_t>{3, 8}));
  EXPECT_EQ(ends_of(rows_of({9, 1, 1}), 2), (std::vector<size_t>{9, 11}));
  EXPECT_EQ(ends_of(rows_of({20}), 4), (std::vector<size_t>{20}));
}

TEST(RowParts, LongContextsCountForMore) {
  std::vector<RunRow> rows = rows_of({1, 1, 1, 1});
  rows.front().position = 100000;
  EXPECT_EQ(ends_of(rows, 2), (std::vector<size_t>{1, 4}));
}

TEST(RowParts, RowsThatDependOnOtherPartsStayTogether) {
  std::vector<RunRow> rows = rows_of({1, 1, 1, 1});
  rows[1].n_branches = 1;
  EXPECT_EQ(ends_of(rows, 2), (std::vector<size_t>{4}));
  rows = rows_of({1, 1, 1, 1});
  std::swap(rows[0], rows[3]);
  EXPECT_EQ(ends_of(rows, 2), (std::vector<size_t>{4}));
}

}  // namespace
}  // namespace kvik::native
