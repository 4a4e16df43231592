#pragma once

#include "kernels/cuda/quick_attend.cuh"

// The shared memory through which a warp reads a span by itself.
namespace kvik::cuda {

// A ring of tiles: first the keys of the span, some positions at a time, then its values. Each tile is a commit group of copies. Piece c of
// 16 bytes of a position is at c ^ (position % 8), so that the eight rows of a matrix are in different banks.
template <int kDim, SpanRingShape kShape>
struct SpanRing {
  static constexpr int kTake = kShape.n_positions, kSlots = kShape.n_slots, kHeadDim = kDim, kSteps = kDim / 16,
                       kChunks = kTake / 16;             // of 16 positions
  static constexpr int kTiles = kSpanPositions / kTake;  // of keys; as many of values
  static constexpr int kRowBytes = kDim * 2, kTileBytes = kTake * kRowBytes, kBytes = kSlots * kTileBytes;
  static constexpr int kPieces = kDim / 8, kRowsAtOnce = 32 / kPieces;
  static_assert(kTake % 16 == 0 && kPagePositions % kTake == 0 && kSlots <= 2 * kTiles && kRowBytes % 128 == 0);

  uint64_t from[kPagesASpan];  // the lane's piece of the first rows of keys that are copied at once, of each page
  int64_t values_ahead;        // of keys, in a page
  int here;                    // the first position that the lane copies, counted from the first one that the row sees
  unsigned n_earlier;          // positions that the row sees, without its own
  int own_tile;                // that has the row's own position, if the span has it; otherwise negative
  uint32_t ring, to, own_at;   // where the lane copies to first, and to in the row's own position
  uint32_t key_at, value_at;   // the lane's rows of matrices

  // Of the warp's span, work.span. Its memory begins at a multiple of 128 bytes.
  __device__ __forceinline__ SpanRing(const DecodeLaunch& launch, const DecodeWork& work, uint32_t memory) : ring(memory) {
    const Attend& step = launch.step;
    const int lane = threadIdx.x % 32, row = lane / kPieces, piece = lane % kPieces;
    const int start = work.span * kSpanPositions, position = work.row.row->position;
    find_pages(step, work, from);
#pragma unroll
    for (uint64_t& page : from) page += step.page_offset + work.kv_head * step.layout.head_bytes + row * kRowBytes + piece * 16;
    values_ahead = step.layout.values_offset;
    here = start + row - work.visible.first;
    n_earlier = position - work.visible.first;
    own_tile = position / kSpanPositions == work.span ? position % kSpanPositions / kTake : -1;
    own_at = ring + position % kTake * kRowBytes + (lane ^ position % 8) * 16;
    to = ring + row * kRowBytes + (piece ^ row) * 16;
    key_at = ring + lane % 16 * kRowBytes + (lane / 16 ^ lane % 8) * 16;
    value_at = ring + (lane / 16 * 8 + lane % 8) * kRowBytes + (lane / 8 % 2 ^ lane % 8) * 16;
  }

  // Copies a tile into the slot of the one kSlots before it, which the whole warp has read; zeros for positions that the row does not see
  // and for its own.
  __device__ __forceinline__ void fetch(int tile) const {
    __syncwarp();
    if (tile < 2 * kTiles) {
      int first = here;
      asm volatile("" : "+r"(first));  // comparing again takes fewer instructions than keeping what was found for keys
#pragma unroll
      for (int row = 0; row < kTake; row += kRowsAtOnce) {
        const int ahead = tile % kTiles * kTake + row;
        const uint64_t page = from[ahead / kPagePositions] + (tile < kTiles ? 0 : values_ahead);
        copy_async((to ^ row % 8 * 16) + tile % kSlots * kTileBytes + row * kRowBytes,
                   reinterpret_cast<const void*>(page + ahead % kPagePositions * kRowBytes),
                   static_cast<unsigned>(first + ahead) < n_earlier);
      }
    }
    commit_copies();
  }

  // Until a tile is there, with the row's own key or value if it has that position. As many tiles were fetched as the ring holds, and those
  // before this one.
  __device__ __forceinline__ void wait(int tile, const uint16_t* own_head) const {
    wait_copies<kSlots - 1>();
    __syncwarp();
    if (own_tile != tile % kTiles) return;
    const int lane = threadIdx.x % 32;
    if (lane < kPieces) {
      const uint4 x = reinterpret_cast<const uint4*>(own_head)[lane];
      const uint32_t at = own_at + tile % kSlots * kTileBytes;
      asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
    }
    __syncwarp();
  }

  // Keys of 16 positions as rows of matrices of 16 dimensions.
  __device__ __forceinline__ void load_keys(int tile, int chunk, uint32_t (&keys)[kSteps][4]) const {
#pragma unroll
    for (int d = 0; d < kSteps; ++d)
      load_matrices(keys[d], (key_at ^ d % 4 * 32) + tile % kSlots * kTileBytes + chunk * 16 * kRowBytes + d / 4 * 128);
  }
  // Values of 16 positions as columns.
  __device__ __forceinline__ void load_values(int tile, int chunk, uint32_t (&values)[kSteps][4]) const {
#pragma unroll
    for (int d = 0; d < kSteps; ++d)
      load_matrices_transposed(values[d], (value_at ^ d % 4 * 32) + tile % kSlots * kTileBytes + chunk * 16 * kRowBytes + d / 4 * 128);
  }
};

}  // namespace kvik::cuda
