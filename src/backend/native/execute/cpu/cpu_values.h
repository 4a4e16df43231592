#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/native/execute/cpu/attend_layouts.h"
#include "backend/native/execute/cpu/load_weights.h"
#include "backend/native/execute/section_tables.h"
#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/cpu/kernels.h"

namespace kvik::native {

// What ops of a plan read and write on the CPU while they run on some rows. A runner sets it up; Frame works on it.
struct CpuValues {
  struct View {
    std::byte* base = nullptr;
    int64_t stride = 0;  // bytes
  };

  // Memory that ops use beside their values, for so many rows of sequences with at most so many keys.
  void reserve_scratch(int64_t n_rows, int64_t most_keys);

  // Rows that are quantized before a product: how many for a row of the call, and how long.
  struct QuantizedShape {
    Activations activations;
    int64_t n_rows, k;
    friend bool operator==(const QuantizedShape&, const QuantizedShape&) = default;
  };

  // The same for all rows, and not owned.
  const Plan* plan = nullptr;
  const cpu::CpuKernels* kernels = nullptr;
  ThreadPool* pool = nullptr;
  std::span<const LoadedWeight> weights;
  std::span<const cpu::Attention> attentions;
  std::span<const QuantizedShape> quantized;
  std::span<const OpIndex> gate_of;  // of each op; see CpuPlan. Empty: none
  const SectionTables* tables = nullptr;

  std::vector<View> views;            // by value
  std::span<const int32_t> branches;  // of the call that runs
  AlignedBuffer scratch;
  std::vector<cpu::AttendRow> attend_rows;
};

// The shapes of `quantized` for the products of a plan whose weights are packed.
std::vector<CpuValues::QuantizedShape> quantized_shapes(const Plan& plan, std::span<const LoadedWeight> weights);

// Makes the buffer larger, and a little more, unless it is large enough.
void grow(AlignedBuffer& buffer, int64_t n_bytes);

}  // namespace kvik::native
