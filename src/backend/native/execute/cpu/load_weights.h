#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/native/execute/weight_choice.h"
#include "backend/native/plan/plan.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "kernels/cpu/pack.h"

namespace kvik::native {

struct LoadedWeight {
  cpu::PackedWeights packed{};                  // no data where it is only looked up
  std::shared_ptr<const AlignedBuffer> memory;  // of `packed`, or
  std::shared_ptr<const MappedFile> mapped;
  std::optional<cpu::FloatSource> floats;  // where it is only looked up
  std::optional<cpu::QuantSource> codes;
  std::vector<Tensor> views;  // keep alive what is only looked up
  Activations activations = Activations::kFloats;
  float row_scale = 0.0f;  // see PlanWeight
  int32_t row_zero_point = 0;

  bool is_packed() const { return packed.data != nullptr; }
};

// Packs all matrices. Throws Error: kTooLarge with both figures when they would not fit into memory (before anything is packed), kBadModel
// naming a weight that holds an infinity or NaN. Says how far it is when it takes longer than a second. The file's pages are dropped as
// they are packed, so that they add no more than some tens of megabytes to the memory of the result.
std::vector<LoadedWeight> load_weights(const Plan& plan, WeightChoice choice, ThreadPool& pool, const Log& log);
// The same, one after another, for a caller that keeps them elsewhere: memory is the caller's to check. `take_stored` is asked first: true
// if the caller has read the matrix from its file itself.
void load_each_weight(const Plan& plan, WeightChoice choice, ThreadPool& pool, const Log& log,
                      const std::function<void(size_t index, LoadedWeight weight)>& take,
                      const std::function<bool(size_t index, const ChosenWeight& chosen)>& take_stored = {});

// One packed matrix in a file: its place, and what of its layout does not follow from the plan.
struct SavedWeight {
  bool is_packed = false;  // otherwise it is only looked up, in the model's file
  cpu::BlockFormat blocks;
  uint64_t offset = 0, size_bytes = 0;  // in the file
  uint64_t hash = 0;                    // of its bytes; not checked here
};
SavedWeight saved_form(const LoadedWeight& weight);

// The matrices that load_weights() packed once, in a file; what is only looked up is read as there. Throws Error(kBadArgument) unless every
// layout is what load_weights() produces for this plan and lies inside the file.
std::vector<LoadedWeight> map_weights(const Plan& plan, WeightChoice choice, std::span<const SavedWeight> saved,
                                      const std::shared_ptr<const MappedFile>& file);

}  // namespace kvik::native
