#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/native/plan/plan.h"
#include "base/thread_pool.h"
#include "kernels/cpu/sources.h"

namespace kvik::native {

// The location of the numbers of one matrix: one of the two.
struct WeightSource {
  std::optional<cpu::FloatSource> floats;
  std::optional<cpu::QuantSource> codes;
  std::vector<Tensor> views;           // keep the memory alive
  std::span<const std::byte> in_file;  // the part of a mapped file that only this matrix reads; may be empty
  int64_t column_bytes = 0;            // in_file: [n][column_bytes]; 0: [k][n] of floats, or neither
};

// Columns of a matrix.
struct ColumnRange {
  int64_t begin = 0, end = 0;
};

// Views into the file if the matrix is stored in the required layout; other expressions are evaluated. Throws Error(kBadModel) for tensors
// whose shapes contradict each other.
WeightSource weight_source(const Plan& plan, const WeightPart& part);

// Throws Error(kBadModel) naming the weight if one of the numbers of these columns (or one of its scales) is not finite.
void check_finite(const Plan& plan, const WeightPart& part, const WeightSource& source, ColumnRange columns, ThreadPool& pool);

// Drops the file's pages that these columns were read from from memory.
void drop_columns(const WeightSource& source, ColumnRange columns);

}  // namespace kvik::native
