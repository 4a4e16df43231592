#include "backend/native/execute/device/run_ahead.h"

#include <algorithm>

namespace kvik::native {
namespace {

constexpr int kFewestCalls = 2, kMostCalls = 64;

bool same_place(const device::Row& a, const device::Row& b) {
  return a.position == b.position && a.slot == b.slot && a.source_slot == b.source_slot && a.n_keys == b.n_keys &&
         a.n_source == b.n_source && a.n_branches == 0 && b.n_branches == 0 && a.beyond == b.beyond;
}

}  // namespace

void RunAhead::begin(std::span<const device::Row> rows) {
  n_continued_ = continues(rows) ? n_continued_ + 1 : 0;
  rows_.assign(rows.begin(), rows.end());
  chosen_.clear();
}

bool RunAhead::continues(std::span<const device::Row> rows) const {
  if (rows.size() != rows_.size() || chosen_.size() != rows_.size()) return false;
  for (size_t i = 0; i < rows.size(); ++i) {
    device::Row next = rows_[i];
    ++next.position, ++next.n_keys;
    if (chosen_[i] < 0 || rows[i].token != chosen_[i] || !same_place(rows[i], next)) return false;
  }
  return true;
}

bool RunAhead::has_rows(std::span<const device::Row> rows) const {
  return continues(rows) && std::ranges::equal(rows, started_.rows, same_place);
}

void RunAhead::hit() {
  started_.program = nullptr;
  if (++n_hits_ >= n_wanted_) n_wanted_ = kFewestCalls;
}

// Twice as many calls have to continue before another one is started.
void RunAhead::miss() {
  started_.program = nullptr;
  n_hits_ = n_continued_ = 0;
  n_wanted_ = std::min(2 * n_wanted_, kMostCalls);
}

}  // namespace kvik::native
