#pragma once

#include <array>
#include <vector>

#include "backend/native/execute/cpu/cpu_values.h"
#include "backend/native/execute/device/device_program.h"

namespace kvik::native {

// The rows of a call, for ops that run on the host.
struct HostCall {
  std::span<const RunRow> rows;
  std::span<const RunSequence> sequences;
  std::span<const int32_t> branches;
};

// Runs ops without a device kernel on CPU kernels: inputs are copied to the host, outputs are copied back. Slow but correct.
class HostSteps {
 public:
  struct Parts {
    const cpu::CpuKernels* kernels = nullptr;
    ThreadPool* pool = nullptr;
    const SectionTables* tables = nullptr;
  };
  // Takes over the weights that are on the host.
  HostSteps(DevicePlan& plan, const Parts& parts);

  void run(OpIndex op, const DeviceProgram& program, const StepMemory& memory, const HostCall& call, device::Device& device);

 private:
  void set_views(const DeviceProgram& program, const StepMemory& memory, Op::Section section);
  void read(ValueIndex value, const HostCall& call, device::Device& device);
  void write(ValueIndex value, const HostCall& call, device::Device& device);
  void run_attention(OpIndex op, int attend, const HostCall& call, device::Device& device);

  const DevicePlan& plan_;
  const std::vector<LoadedWeight> weights_;
  const std::vector<CpuValues::QuantizedShape> quantized_;
  std::vector<cpu::Attention> attentions_;
  CpuValues values_;
  std::array<AlignedBuffer, kArenas> arenas_;
  std::vector<device::Address> at_;  // by value: its location on the device
  std::vector<bool> given_;          // by value: also in host memory
  AlignedBuffer pages_;              // copies of one attention's keys and values
};

}  // namespace kvik::native
