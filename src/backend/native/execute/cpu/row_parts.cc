#include "backend/native/execute/cpu/row_parts.h"

#include <algorithm>

namespace kvik::native {
namespace {

// A row reads all weights, and for attention all positions before it.
int64_t work_of(const RunRow& row) {
  constexpr int64_t kWeights = 512;  // as much as so many positions, in a small model
  return kWeights + row.position;
}

// Sequences in the order of their first rows, each in one piece.
bool are_adjacent(std::span<const RunRow> rows) {
  for (size_t i = 1; i < rows.size(); ++i)
    if (rows[i].sequence < rows[i - 1].sequence) return false;
  return true;
}

}  // namespace

void cut_rows(std::span<const RunRow> rows, int n_parts, std::vector<RowPart>& parts) {
  parts.clear();
  const auto has_branches = [](const RunRow& row) { return row.n_branches > 0; };
  if (n_parts < 2 || !are_adjacent(rows) || std::ranges::any_of(rows, has_branches)) {
    parts.push_back({0, rows.size()});
    return;
  }
  int64_t total = 0, done = 0;
  for (const RunRow& row : rows) total += work_of(row);
  size_t begin = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    done += work_of(rows[i]);
    const bool ends_sequence = i + 1 == rows.size() || rows[i + 1].sequence != rows[i].sequence;
    const auto n_cut = static_cast<int64_t>(parts.size()) + 1;
    if (!ends_sequence || (done * n_parts < total * n_cut && i + 1 < rows.size())) continue;
    parts.push_back({begin, i + 1});
    begin = i + 1;
  }
}

}  // namespace kvik::native
