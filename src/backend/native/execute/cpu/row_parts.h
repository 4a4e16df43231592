#pragma once

#include <span>
#include <vector>

#include "backend/native/execute/call.h"

namespace kvik::native {

struct RowPart {
  size_t begin, end;
};

// Cuts the rows of a call into at most n_parts parts of about equal work. All rows of a sequence are in one part, so that no part waits for
// another. One part if the rows are not in the order of their sequences, or if other sequences branch off behind a row.
void cut_rows(std::span<const RunRow> rows, int n_parts, std::vector<RowPart>& parts);

}  // namespace kvik::native
