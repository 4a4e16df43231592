#pragma once

#include "kernels/cuda/common.cuh"

// How a lane reads packed weights (kernels/device/units.h): its share of a unit, and from it the mma fragment of each step of 16 k.
namespace kvik::cuda {

__device__ __forceinline__ uint4 load_once(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
__device__ __forceinline__ uint32_t load_once_word(const void* p) {
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ uint32_t subtract_halves(uint32_t a, uint32_t b) {
  uint32_t r;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ uint32_t fused_halves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

// Per format: how a lane keeps a unit, and the fragment of each of its steps.
template <WeightFormat kFormat>
struct Unit;

template <>
struct Unit<WeightFormat::kF16> {
  static constexpr int kColumns = 32, kBytes = 1024, kPlanes = 1;
  static constexpr bool kBlocks = false;
  uint4 words[2];
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
    words[0] = load_once(unit + lane * 16);
    words[1] = load_once(unit + 512 + lane * 16);
  }
  __device__ __forceinline__ uint4 fragment(int step, int = 0) const { return words[step]; }
};

template <>
struct Unit<WeightFormat::kF32> {
  static constexpr int kColumns = 32, kBytes = 2048, kPlanes = 2;
  static constexpr bool kBlocks = false;
  uint4 words[4];
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = load_once(unit + i * 512 + lane * 16);
  }
  __device__ __forceinline__ uint4 fragment(int step, int plane = 0) const { return words[plane * 2 + step]; }
};

// Codes become exact f16 integers: 1024 + code has the code in its low bits.
__device__ __forceinline__ uint4 fragment_of_bytes(uint32_t low, uint32_t high, uint32_t zero, uint32_t zero8) {
  return {subtract_halves(__byte_perm(low, 0x64646464, 0x4140), zero), subtract_halves(__byte_perm(low, 0x64646464, 0x4342), zero8),
          subtract_halves(__byte_perm(high, 0x64646464, 0x4140), zero), subtract_halves(__byte_perm(high, 0x64646464, 0x4342), zero8)};
}
// 1024 + the bits of a code, in one instruction.
__device__ __forceinline__ uint32_t code_halves(uint32_t word, uint32_t mask) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(word), "r"(mask), "r"(0x64006400u));  // (word & mask) | 0x6400…
  return r;
}
// Registers 1 and 3 are taken 16 times larger, 1024 + 16 code, and scaled back exactly: 64 + code.
__device__ __forceinline__ uint4 fragment_of_nibbles(uint32_t word, uint32_t zero, uint32_t zero8) {
  const uint32_t high = word >> 8, sixteenth = 0x2c002c00u, low_mask = 0x000f000fu, high_mask = 0x00f000f0u;
  return {subtract_halves(code_halves(word, low_mask), zero), fused_halves(code_halves(word, high_mask), sixteenth, zero8),
          subtract_halves(code_halves(high, low_mask), zero), fused_halves(code_halves(high, high_mask), sixteenth, zero8)};
}

template <>
struct Unit<WeightFormat::kQ8> {
  static constexpr int kColumns = 32, kBytes = 544, kPlanes = 1;
  static constexpr bool kBlocks = true;
  uint4 words;
  uint32_t scales;  // of columns g and g + 8
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
    words = load_once(unit + lane * 16);
    scales = load_once_word(unit + 512 + lane / 4 * 4);
  }
  __device__ __forceinline__ float2 block_scales(int) const { return __half22float2(*reinterpret_cast<const __half2*>(&scales)); }
  __device__ __forceinline__ uint4 fragment(int step, int = 0) const {
    return step == 0 ? fragment_of_bytes(words.x, words.y, 0x64806480u, 0x64806480u)
                     : fragment_of_bytes(words.z, words.w, 0x64806480u, 0x64806480u);
  }
};

template <>
struct Unit<WeightFormat::kQ8Zero> {
  static constexpr int kColumns = 32, kBytes = 640, kPlanes = 1;
  static constexpr bool kBlocks = true;
  uint4 words, scales;  // scale and zero point of column g, of column g + 8
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
    words = load_once(unit + lane * 16);
    scales = load_once(unit + 512 + lane / 4 * 16);
  }
  __device__ __forceinline__ float2 block_scales(int) const { return {float_of(scales.x), float_of(scales.z)}; }
  __device__ __forceinline__ uint4 fragment(int step, int = 0) const {
    const uint32_t zero = __byte_perm(scales.y, 0, 0x1010), zero8 = __byte_perm(scales.w, 0, 0x1010);
    return step == 0 ? fragment_of_bytes(words.x, words.y, zero, zero8) : fragment_of_bytes(words.z, words.w, zero, zero8);
  }
};

template <>
struct Unit<WeightFormat::kQ4> {
  static constexpr int kColumns = 64, kBytes = 576, kPlanes = 1;
  static constexpr bool kBlocks = true;
  uint4 words;
  uint32_t scales[2];
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
    words = load_once(unit + lane * 16);
    scales[0] = load_once_word(unit + 512 + lane / 4 * 4);
    scales[1] = load_once_word(unit + 544 + lane / 4 * 4);
  }
  __device__ __forceinline__ float2 block_scales(int block) const {
    return __half22float2(*reinterpret_cast<const __half2*>(&scales[block]));
  }
  __device__ __forceinline__ uint4 fragment(int step, int = 0) const {
    const uint32_t word = step == 0 ? words.x : step == 1 ? words.y : step == 2 ? words.z : words.w;
    return fragment_of_nibbles(word, 0x64086408u, 0xd480d480u);
  }
};

template <>
struct Unit<WeightFormat::kQ4Zero> {
  static constexpr int kColumns = 64, kBytes = 768, kPlanes = 1;
  static constexpr bool kBlocks = true;
  uint4 words, scales[2];
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
    words = load_once(unit + lane * 16);
    scales[0] = load_once(unit + 512 + lane / 4 * 16);
    scales[1] = load_once(unit + 640 + lane / 4 * 16);
  }
  __device__ __forceinline__ float2 block_scales(int block) const { return {float_of(scales[block].x), float_of(scales[block].z)}; }
  __device__ __forceinline__ uint4 fragment(int step, int = 0) const {
    const uint32_t word = step == 0 ? words.x : step == 1 ? words.y : step == 2 ? words.z : words.w;
    const uint32_t zero = __byte_perm(scales[step / 2].y, 0, 0x1010), zero8 = __byte_perm(scales[step / 2].w, 0, 0x1010);
    return fragment_of_nibbles(word, zero, subtract_halves(0x63806380u, zero8));  // 960 - (1024 + z) = -(64 + z)
  }
};

}  // namespace kvik::cuda
