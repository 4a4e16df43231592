#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/native/plan/plan.h"
#include "backend/native/probe/probe.h"
#include "base/thread_pool.h"
#include "kernels/cpu/sources.h"

namespace kvik::native {

// Where the numbers of one matrix lie: one of the two.
struct WeightSource {
  std::optional<cpu::FloatSource> floats;
  std::optional<cpu::QuantSource> codes;
  std::vector<Tensor> views;           // keep the memory alive
  std::span<const std::byte> in_file;  // what of it lies in the mapped file and is read for this matrix alone; may be empty
};

// Views into the file wherever the matrix is stored as it is wanted; an expression that nothing looks through is evaluated. Throws
// Error(kBadModel) for tensors whose shapes contradict each other.
WeightSource weight_source(const Plan& plan, const WeightPart& part, Constants& constants);

// Throws Error(kBadModel) naming the weight where one of its numbers (or scales) is no finite number.
void check_finite(const Plan& plan, const WeightPart& part, const WeightSource& source, ThreadPool& pool);

// What the file stores: f32, f16, bf16, or the codes of a quantised matrix.
DType stored_dtype(const Plan& plan, const WeightPart& part);

}  // namespace kvik::native
