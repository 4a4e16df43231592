#pragma once

// A function over a row of logits, compiled for several widths of registers and chosen at start. Without fused operations, which are
// switched off for the whole project, wider registers give the same bits. Sanitizers start too late for the choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KVIK_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KVIK_WIDEST
#endif
