#pragma once

#include <cstdint>
#include <span>

#include "kv/page_memory.h"

namespace kvik::native {

inline constexpr int kPagePositions = 32;

// One row of a call.
struct RunRow {
  int64_t position = 0;
  int32_t sequence = 0;
  bool beyond = false;  // its sequence is longer than Plan::switch_after
  // Sequences that branch off after this row, which get its keys and values too. A range of RunCall::branches.
  int32_t first_branch = 0;
  int32_t n_branches = 0;
};

// Shared by the rows of one sequence. Pages and registers are addresses in Runner::memory().
struct RunSequence {
  const kv::PageAddress* pages = nullptr;         // its own keys and values, writable from its first row on
  int64_t n_keys = 0;                             // for attention without a mask: positions after this call
  const kv::PageAddress* source_pages = nullptr;  // of cross attention
  int64_t n_source = 0;
  const kv::PageAddress* registers = nullptr;  // [register]
  int64_t n_writable = 0;                      // positions up to which its pages may be written, if that is more than n_keys
};

// Outputs that stay in device memory.
class OutputRows;

struct RunCall {
  std::span<const RunRow> rows;
  std::span<const RunSequence> sequences;
  std::span<const int64_t> tokens;    // [rows]; empty if rows are given as embeddings
  std::span<const float> embeddings;  // [rows][size]
  std::span<const int32_t> wanted;    // rows whose output is wanted, ascending
  float* output = nullptr;            // [wanted], each `output_stride` after the one before
  std::span<const int32_t> branches;  // sequences; see RunRow
  OutputRows* kept = nullptr;         // receives the output instead, if not null; must be of the same runner
  int64_t first_kept = 0;             // which of its rows is the first of `wanted`
  // For each output that stays on the device: how many of the largest logits will probably be read; 0: all.
  std::span<const int32_t> n_candidates = {};
  int64_t output_stride = 0;  // floats from one row of `output` to the next; 0: the rows are adjacent

  int64_t stride_of_output(int64_t size) const { return output_stride > 0 ? output_stride : size; }
};

}  // namespace kvik::native
