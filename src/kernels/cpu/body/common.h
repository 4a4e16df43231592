#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/small_float.h"

// What the files of every instruction set share. They are compiled with flags that not every machine can run, and the linker keeps one
// copy of an inline function whoever compiled it: so they call nothing inline from outside their own namespace, not even std::min.
#if defined(KVIK_PLAIN)  // an array is no register: unrolling it gains nothing and takes a minute to compile
#define KVIK_INLINE static inline
#define KVIK_UNROLL
#define KVIK_UNROLL4
#elif defined(__clang__)
#define KVIK_INLINE static inline __attribute__((always_inline))
#define KVIK_UNROLL _Pragma("clang loop unroll(full)")
#define KVIK_UNROLL4 _Pragma("clang loop unroll_count(4)")
#else
#define KVIK_INLINE static inline __attribute__((always_inline))
#define KVIK_UNROLL _Pragma("GCC unroll 8")
#define KVIK_UNROLL4 _Pragma("GCC unroll 4")
#endif

namespace kvik::cpu {

// Every instruction set computes with virtual vectors of this many floats: one zmm, two ymm, four NEON registers, an array.
constexpr int kLanes = 16;

}  // namespace kvik::cpu
