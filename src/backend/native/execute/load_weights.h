#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/native/plan/plan.h"
#include "base/log.h"
#include "kernels/cpu/pack.h"

namespace kvik::native {

enum class WeightChoice : uint8_t { kAsStored, kF32, kF16, kQ8, kQ4 };

// How one matrix of a plan will be kept: decided from types and sizes alone, before anything is read.
struct ChosenWeight {
  bool is_multiplied = false;  // by rows: packed; otherwise only looked up, straight from the file
  bool as_stored = false;      // quantised codes, scales and zero points are taken as they are
  cpu::WeightFormat format = cpu::WeightFormat::kF32;
  Activations activations = Activations::kFloats;
  int64_t size_bytes = 0;  // about, before anything is read; of the file where it is not packed
};
std::vector<ChosenWeight> choose_weights(const Plan& plan, WeightChoice choice);
// "f32", "f16", "bf16", "q8", "q4", "int8"
std::string_view format_name(const ChosenWeight& weight);

struct LoadedWeight {
  cpu::Weights packed;                     // no memory where it is only looked up
  std::optional<cpu::FloatSource> floats;  // where it is only looked up
  std::optional<cpu::QuantSource> codes;
  std::vector<Tensor> views;  // keep alive what is only looked up
  Activations activations = Activations::kFloats;
  float row_scale = 0.0f;  // see PlanWeight
  int32_t row_zero_point = 0;

  bool is_packed() const { return packed.view.data != nullptr; }
};

// Packs all matrices. Throws Error: kTooLarge with both figures when they would not fit into memory (before anything is packed), kBadModel
// naming a weight that holds an infinity or NaN. Says how far it is when it takes longer than a second.
std::vector<LoadedWeight> load_weights(const Plan& plan, WeightChoice choice, ThreadPool& pool, const Log& log);

}  // namespace kvik::native
