#pragma once

#include <string_view>
#include <vector>

#include "backend/native/plan/plan.h"
#include "kernels/cpu/weights.h"

namespace kvik::native {

// The format to which a matrix of k rows is quantized at load. Eight bits are precise enough for large blocks, which are smaller and
// faster.
constexpr cpu::BlockFormat blocks_of(cpu::WeightFormat format, int64_t k) {
  if (format == cpu::WeightFormat::kBlocks8) return {.bits = 8, .block = k % 128 == 0 ? 128 : k % 64 == 0 ? 64 : 32};
  return {.bits = format == cpu::WeightFormat::kBlocks6 ? 6 : 4, .block = 32};
}

enum class WeightChoice : uint8_t { kAsStored, kF32, kF16, kQ8, kQ4 };

// How one matrix of a plan will be stored, decided from types and sizes before anything is read.
struct ChosenWeight {
  bool is_multiplied = false;  // packed for products with rows; otherwise only looked up in the file
  bool as_stored = false;      // quantized codes, scales and zero points are kept
  cpu::WeightFormat format = cpu::WeightFormat::kF32;
  Activations activations = Activations::kFloats;
  int64_t size_bytes = 0;  // an estimate before anything is read; bytes in the file if it is not packed
};
std::vector<ChosenWeight> choose_weights(const Plan& plan, WeightChoice choice);
// "f32", "f16", "bf16", "q8", "q6", "q4", "int8"
std::string_view format_name(const ChosenWeight& weight);

}  // namespace kvik::native
