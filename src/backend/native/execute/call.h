#pragma once

#include <cstdint>
#include <span>

#include "kv/page_memory.h"

namespace kvik::native {

// One row of a call.
struct RunRow {
  int64_t position = 0;
  int32_t sequence = 0;
  bool beyond = false;  // its sequence is longer than Plan::switch_after
  // Sequences that branch off behind this row: they get its keys and values too. A range of RunCall::branches.
  int32_t first_branch = 0;
  int32_t n_branches = 0;
};

// What the rows of one sequence share. Pages and registers are addresses in Runner::memory().
struct RunSequence {
  const kv::PageAddress* pages = nullptr;         // its own keys and values, writable from its first row on
  int64_t n_keys = 0;                             // of attention that sees everything: positions after this call
  const kv::PageAddress* source_pages = nullptr;  // of cross attention
  int64_t n_source = 0;
  const kv::PageAddress* registers = nullptr;  // [register]
};

// Outputs that stay in the memory of a device.
class OutputRows;

struct RunCall {
  std::span<const RunRow> rows;
  std::span<const RunSequence> sequences;
  std::span<const int64_t> tokens;    // [rows]; empty where rows come as embeddings
  std::span<const float> embeddings;  // [rows][size]
  std::span<const int32_t> wanted;    // rows whose output is wanted, ascending
  float* output = nullptr;            // [wanted][output size]
  std::span<const int32_t> branches;  // sequences; see RunRow
  OutputRows* kept = nullptr;         // gets the output instead, if it is not null; only of the runner that made it
  // Of each output that is kept: how many of the largest are likely to be all that is read; 0: all of it is read.
  std::span<const int32_t> n_candidates = {};
};

}  // namespace kvik::native
