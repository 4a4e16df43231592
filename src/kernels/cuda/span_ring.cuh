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

  static constexpr int kHalf = kTiles / 2;  // tiles of half a span, for loops

  const DecodeLaunch& launch;
  uint64_t page;              // lane i % 4: keys in page i of the span
  int here;                   // the first position that the lane copies, counted from the first one that the row sees
  unsigned n_earlier;         // positions that the row sees, without its own
  int own_tile;               // that has the row's own position, if the span has it; otherwise negative
  uint32_t ring, to, own_at;  // where the lane copies to first, and to in the row's own position
  uint32_t key_at, value_at;  // the lane's rows of matrices
  uint32_t slot = 0;          // bytes, of the next tile to be read, and then to be copied
  int next = 0;               // tile to be copied

  // Of the warp's span, work.span. Its memory begins at a multiple of 128 bytes.
  __device__ __forceinline__ SpanRing(const DecodeLaunch& of, const DecodeWork& work, uint32_t memory) : launch(of), ring(memory) {
    const Attend& step = launch.step;
    const int lane = threadIdx.x % 32, row = lane / kPieces, piece = lane % kPieces;
    const int position = work.visible.end - 1, last = position / static_cast<unsigned>(kPagePositions);
    const auto* table = pointer<uint64_t>(step.pages.pages) + work.slot * step.pages.n_pages;
    page =
        __ldcg(table + min(work.span * kPagesASpan + lane % kPagesASpan, last)) + step.page_offset + work.kv_head * step.layout.head_bytes;
    here = work.span * kSpanPositions + row - work.visible.first;
    n_earlier = position - work.visible.first;
    own_tile = work.span == work.end_span - 1 ? static_cast<int>(position % static_cast<unsigned>(kSpanPositions)) / kTake : -1;
    own_at = ring + position % static_cast<unsigned>(kTake) * kRowBytes + (lane ^ position % 8u) * 16;
    to = ring + row * kRowBytes + (piece ^ row) * 16;
    key_at = ring + lane % 16 * kRowBytes + (lane / 16 ^ lane % 8) * 16;
    value_at = ring + (lane / 16 * 8 + lane % 8) * kRowBytes + (lane / 8 % 2 ^ lane % 8) * 16;
  }

  // Copies the next tile into the slot of the one kSlots before it, which the whole warp has read; zeros for positions that the row does
  // not see and for its own. Then the next slot is in turn.
  __device__ __forceinline__ void fetch() {
    const int ahead = next * kTake % static_cast<unsigned>(kSpanPositions), first = here + ahead;
    uint64_t from = __shfl_sync(~0u, page, ahead / kPagePositions);
    __syncwarp();
    if (next < 2 * kTiles) {
      from += (next < kTiles ? 0 : launch.step.layout.values_offset) + (ahead % kPagePositions * kRowBytes + threadIdx.x % 32 * 16);
      const uint32_t at = to + slot;
      copy_rows<0>(at, from, first);
    }
    commit_copies();
    ++next;
    slot = slot == kBytes - kTileBytes ? 0 : slot + kTileBytes;
  }
  template <int kRow>
  __device__ __forceinline__ void copy_rows(uint32_t at, uint64_t from, int first) const {
    if constexpr (kRow < kTake) {
      copy_async_ahead<kRow * kRowBytes, kRow * kRowBytes>(at ^ kRow % 8 * 16, from, static_cast<unsigned>(first + kRow) < n_earlier);
      copy_rows<kRow + kRowsAtOnce>(at, from, first);
    }
  }

  // Until the tile in turn is there, with the row's own key or value if it has that position. As many tiles were fetched as the ring holds,
  // and those before this one.
  __device__ __forceinline__ void wait(int tile, const uint16_t* own_head) const {
    wait_copies<kSlots - 1>();
    __syncwarp();
    if (own_tile != tile) return;
    const int lane = threadIdx.x % 32;
    if (lane < kPieces) {
      const uint4 x = reinterpret_cast<const uint4*>(own_head)[lane];
      asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(own_at + slot), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
    }
    __syncwarp();
  }

  // Keys of 16 positions of the tile in turn, as rows of matrices of 16 dimensions.
  __device__ __forceinline__ void load_keys(int chunk, uint32_t (&keys)[kSteps][4]) const {
#pragma unroll
    for (int d = 0; d < kSteps; ++d) load_matrices(keys[d], ((key_at + slot) ^ d % 4 * 32) + chunk * 16 * kRowBytes + d / 4 * 128);
  }
  // Values of 16 positions as columns.
  __device__ __forceinline__ void load_values(int chunk, uint32_t (&values)[kSteps][4]) const {
#pragma unroll
    for (int d = 0; d < kSteps; ++d)
      load_matrices_transposed(values[d], ((value_at + slot) ^ d % 4 * 32) + chunk * 16 * kRowBytes + d / 4 * 128);
  }
};

}  // namespace kvik::cuda
