#pragma once

#include "kernels/cpu/rows.h"
#include "kernels/cpu/weights.h"

// What the matrix products share. The law of them all: one output is one chain of operations in increasing k, whatever the tile, the
// rows in the call, the split of the panels or the width of a register. Requires the vec.h of an instruction set.
namespace kvik::cpu::KVIK_ISA {

template <int n>
struct Const {
  static constexpr int value = n;
};

// tile(Const<R>{}, row) for R rows at a time, then once for the rest, or twice if R is large: every size is code of its own.
template <int kMost, class Tile>
KVIK_INLINE void rest_of_rows(int64_t left, int64_t row, Tile tile) {
  if constexpr (kMost > 0) {
    if (left == kMost)
      tile(Const<kMost>{}, row);
    else
      rest_of_rows<kMost - 1>(left, row, tile);
  }
}
template <int kRows, class Tile>
KVIK_INLINE void row_tiles_of_all_sizes(int64_t n_rows, Tile tile) {
  int64_t row = 0;
  for (; row + kRows <= n_rows; row += kRows) tile(Const<kRows>{}, row);
  rest_of_rows<kRows - 1>(n_rows - row, row, tile);
}
template <int kRows, class Tile>
KVIK_INLINE void row_tiles(int64_t n_rows, Tile tile) {
  if constexpr (kRows < 8) {
    row_tiles_of_all_sizes<kRows>(n_rows, tile);
  } else {
    int64_t row = 0;
    for (; row + kRows <= n_rows; row += kRows) tile(Const<kRows>{}, row);
    if (row + 4 <= n_rows) {
      tile(Const<4>{}, row);
      row += 4;
    }
    rest_of_rows<3>(n_rows - row, row, tile);
  }
}

// The same with as few tiles of at most kMost rows as possible, and these as even as possible: a tile of one row or two takes almost as
// long as one of more.
template <int kMost, class Tile>
KVIK_INLINE void even_row_tiles(int64_t n_rows, Tile tile) {
  int64_t row = 0;
  for (int64_t n_tiles = (n_rows + kMost - 1) / kMost; n_tiles > 0; --n_tiles) {
    const int64_t n = (n_rows - row + n_tiles - 1) / n_tiles;
    rest_of_rows<kMost>(n, row, tile);
    row += n;
  }
}

// All rows of a group of panels before the next group, so that weights come from memory once. Few rows: one panel at a time, which is
// one ascending stream; many: `kWide` panels share each broadcast of an activation.
template <int kWide, class Panels>
KVIK_INLINE void panel_groups(PanelRange range, bool wide, Panels panels) {
  int64_t p = range.begin;
  if constexpr (kWide > 1) {
    if (wide)
      for (; p + kWide <= range.end; p += kWide) panels(Const<kWide>{}, p);
  }
  for (; p < range.end; ++p) panels(Const<1>{}, p);
}

// A store to a line that is not in the first-level cache waits for it, and so do the stores behind it. Where rows of an output are long, or
// many (their lines often share a set of that cache), a tile asks for the lines that it will write before it begins.
template <int R, int P>
KVIK_INLINE void prefetch_sums(const MatmulOut& out, int64_t n_rows, int64_t row, int64_t column) {
  constexpr int64_t kLongRow = 2048, kManyRows = 24;
  if (out.stride < kLongRow && n_rows < kManyRows) return;
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) prefetch(out.data + (row + r) * out.stride + column + i * kLanes);
}

// Stores 16 sums that begin at `column`, without touching what lies beyond the last column.
KVIK_INLINE void store_sums(const MatmulOut& out, int64_t row, int64_t column, int64_t n_columns, F sum) {
  const int64_t left = n_columns - column;
  if (left <= 0) return;
  float* to = out.data + row * out.stride + column;
  if (left >= kLanes) return store(to, out.bias != nullptr ? add(sum, load(out.bias + column)) : sum);
  const int n = static_cast<int>(left);
  store_n(to, out.bias != nullptr ? add(sum, load_n(out.bias + column, n)) : sum, n);
}

}  // namespace kvik::cpu::KVIK_ISA
