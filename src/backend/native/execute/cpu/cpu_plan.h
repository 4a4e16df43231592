#pragma once

#include <array>
#include <memory>
#include <vector>

#include "backend/native/execute/cpu/cpu_values.h"
#include "backend/native/place/place.h"

namespace kvik::native {

// A plan with its weights, the layout of its cache and the places of its values: what all rows of a runner share. It does not change.
struct CpuPlan {
  struct Section {
    std::vector<OpIndex> ops;
    std::vector<ValueIndex> values;  // that lie in its arena
    int64_t row_bytes = 0;           // of the arena
    int64_t weight_bytes = 0;        // of the matrices that its products read
  };

  CpuPlan(std::shared_ptr<const Plan> plan, std::vector<LoadedWeight> weights, const cpu::CpuKernels& kernels, cpu::KvFormat kv_format);
  CpuPlan(const CpuPlan&) = delete;
  CpuPlan& operator=(const CpuPlan&) = delete;

  const Section& section(Op::Section section) const { return sections[static_cast<size_t>(section)]; }

  const std::shared_ptr<const Plan> plan;
  const std::vector<LoadedWeight> weights;
  const cpu::CpuKernels& kernels;
  const AttendLayouts layouts;
  const std::vector<CpuValues::QuantizedShape> quantized;
  const ValueIndex external;  // the value that is written where the caller wants the output
  const Placement placement;
  // Of each product: the op before it whose result only the product reads, and which it computes while it quantizes its rows; or kNoIndex.
  const std::vector<OpIndex> gate_of;
  std::array<Section, 3> sections;
};

}  // namespace kvik::native
