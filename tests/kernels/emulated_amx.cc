#include "kernels/emulated_amx.h"

#if defined(__AMX_TILE__)
#include <cstring>
#include <immintrin.h>

// What the instructions do, on tiles in memory.
namespace kvik::cpu::tiles {
namespace {

struct Shapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t n_rows[16];
};

thread_local Shapes shapes;
thread_local uint8_t registers[8][16][64];

void configure(const void* from) { std::memcpy(&shapes, from, sizeof shapes); }

void zero_tile(int tile) { std::memset(registers[tile], 0, sizeof registers[tile]); }

void load_tile(int tile, const void* from, int64_t stride) {
  zero_tile(tile);
  for (int64_t row = 0; row < shapes.n_rows[tile]; ++row)
    std::memcpy(registers[tile][row], static_cast<const char*>(from) + row * stride, shapes.row_bytes[tile]);
}

void store_tile(int tile, void* to, int64_t stride) {
  for (int64_t row = 0; row < shapes.n_rows[tile]; ++row)
    std::memcpy(static_cast<char*>(to) + row * stride, registers[tile][row], shapes.row_bytes[tile]);
}

// sums[m][n] += a[m][k] * b[k / 4][n][k % 4] of signed bytes.
void multiply_tiles(int sums, int a, int b) {
  for (int m = 0; m < shapes.n_rows[sums]; ++m) {
    int32_t row[16];
    std::memcpy(row, registers[sums][m], sizeof row);
    for (int k = 0; k < shapes.row_bytes[a]; ++k) {
      const auto factor = static_cast<int8_t>(registers[a][m][k]);
      for (int n = 0; n < shapes.row_bytes[sums] / 4; ++n) row[n] += factor * static_cast<int8_t>(registers[b][k / 4][n * 4 + k % 4]);
    }
    std::memcpy(registers[sums][m], row, sizeof row);
  }
}

}  // namespace
}  // namespace kvik::cpu::tiles

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_loadconfig
#undef _tile_release
#define _tile_zero(tile) kvik::cpu::tiles::zero_tile(tile)
#define _tile_loadd(tile, from, stride) kvik::cpu::tiles::load_tile(tile, from, stride)
#define _tile_stored(tile, to, stride) kvik::cpu::tiles::store_tile(tile, to, stride)
#define _tile_dpbssd(sums, a, b) kvik::cpu::tiles::multiply_tiles(sums, a, b)
#define _tile_loadconfig(from) kvik::cpu::tiles::configure(from)
#define _tile_release() kvik::cpu::tiles::configure(kvik::cpu::tiles::registers)

#define amx amx_in_memory  // the namespace: the library has the real one
#include "kernels/cpu/amx/blocks.cc"
#include "kernels/cpu/amx/bytes.cc"
#undef amx
#endif

namespace kvik::cpu {

const CpuKernels* emulated_amx() {
#if defined(__AMX_TILE__)
  if (by_name("avx512") == nullptr) return nullptr;
  static const CpuKernels table = [] {
    CpuKernels kernels = *by_name("avx512");
    kernels.name = "emulated AMX";
    kernels.matmul_quantized = amx_in_memory::matmul_tiles;
    kernels.matmul_bytes = amx_in_memory::matmul_byte_tiles;
    return kernels;
  }();
  return &table;
#else
  return nullptr;
#endif
}

}  // namespace kvik::cpu
