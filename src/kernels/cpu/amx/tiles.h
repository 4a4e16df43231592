#pragma once

#include <cstdint>

#include "kernels/cpu/amx/vec.h"

// The tile registers of AMX. A product of two tiles adds to 16 x 16 sums of 32-bit integers, which are exact, so that its bits are those of
// every other instruction set. Packed lines of weights, [group of 4 k][16 columns][4], are rows of a tile as they are.
namespace kvik::cpu::amx {

constexpr int kTileRows = 16;

// Macros, because the intrinsics of g++ print the register's number into assembly.
#define KVIK_SUMS0 0
#define KVIK_SUMS1 1
#define KVIK_ROWS 2
#define KVIK_WEIGHTS 3
#define KVIK_REST_ROWS 4
#define KVIK_REST_WEIGHTS 5

// Tile loads and stores of g++ do not say that they access memory.
KVIK_INLINE void order_memory() { __asm__ volatile("" ::: "memory"); }

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t n_rows[16] = {};
};

// Sets the shapes of the tiles for one scope: n_rows x k bytes of rows by lines of weights.
class TileScope {
 public:
  TileScope(int n_rows, int k, int rest_of_k) {
    TileShapes shapes;
    set(shapes, KVIK_SUMS0, n_rows, 64);
    set(shapes, KVIK_SUMS1, n_rows, 64);
    set(shapes, KVIK_ROWS, n_rows, k);
    set(shapes, KVIK_WEIGHTS, k / 4, 64);
    if (rest_of_k > 0) {
      set(shapes, KVIK_REST_ROWS, n_rows, rest_of_k);
      set(shapes, KVIK_REST_WEIGHTS, rest_of_k / 4, 64);
    }
    order_memory();
    _tile_loadconfig(&shapes);
  }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  static void set(TileShapes& shapes, int tile, int n_rows, int row_bytes) {
    shapes.n_rows[tile] = static_cast<uint8_t>(n_rows);
    shapes.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  }
};

}  // namespace kvik::cpu::amx
