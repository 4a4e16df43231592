#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backend/native/execute/device/device_output.h"
#include "backend/native/execute/device/device_output.h"
#include "backend/native/execute/device/device_program.h"
#include "backend/native/execute/device/host_step.h"
#include "backend/native/execute/device/page_tables.h"
#include "backend/native/execute/execute.h"
#include "backend/native/execute/waves.h"
#include "base/recorder.h"

namespace kvik::native {

// Runs a plan as steps of a device. Values, pages and weights stay there; a call uploads its rows and downloads the requested outputs. All
// memory is allocated before the first step is queued.
class DeviceRunner final : public Runner {
 public:
  struct Parts {
    std::shared_ptr<const Plan> plan;
    DeviceWeights weights;
    cpu::KvFormat kv_format = cpu::KvFormat::kF32;
    std::shared_ptr<SharedDevice> device;
    const cpu::CpuKernels* kernels = nullptr;  // of host steps
    ThreadPool* pool = nullptr;                // must outlive it
    bool records = true;                       // false: steps are launched one by one
    Recorder* recorder = nullptr;              // measures each kernel; may be null
  };
  explicit DeviceRunner(Parts parts);
  ~DeviceRunner() override;

  const Plan& plan() const override { return *plan_.plan; }
  int preferred_rows() const override;
  const std::shared_ptr<kv::PageMemory>& memory() const override { return memory_; }
  const CacheBytes& cache_bytes() const override { return cache_bytes_; }
  void clear_positions(std::byte* page, int first) const override;
  void prepare(std::span<const RunRow> rows) override;
  void prepare_source(std::span<const RunRow> rows) override;
  void run(const RunCall& call) override;
  std::shared_ptr<OutputRows> keep_output(std::span<const int32_t> n_candidates, std::shared_ptr<OutputRows> reused) override;
  void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                  std::span<const std::span<const float>> inputs) override;

 private:
  void run_rows(const RunCall& call);
  void check_tokens(const RunCall& call) const;
  CallShape shape_of(const RunCall& call, bool source) const;
  DeviceProgram& prepare_call(const RunCall& call, bool source);
  void reserve(const CallShape& shape, const RunCall& call);
  void reserve_buffer(DeviceBuffer& buffer, int64_t n_bytes, std::string_view what);
  void reserve_results(size_t n_bytes);
  DeviceProgram& program_for(const CallShape& shape);
  size_t most_patches(const CallShape& shape) const;
  void send_rows(const RunCall& call, const DeviceProgram& program);
  void send_value(ValueIndex value, const ValueAt& at, std::span<const float> rows, size_t n_rows);
  void execute(DeviceProgram& program, const RunCall& call);
  void replay(Segment& segment, bool often);
  void finish(const DeviceProgram& program);
  void read_output(const DeviceProgram& program, const RunCall& call);
  int32_t free_output_place(const DeviceOutput* reused);
  template <class Work>
  void forget_if_it_fails(const Work& work);
  void drop_programs();

  std::shared_ptr<SharedDevice> shared_;
  std::shared_ptr<kv::PageMemory> memory_;
  CacheBytes cache_bytes_;
  DevicePlan plan_;
  SectionTables tables_;
  std::array<std::vector<int>, 3> device_tables_used_;  // by section: those that steps read
  DeviceTables device_tables_;
  HostSteps host_steps_;
  bool records_;
  int64_t most_token_ = INT64_MAX;  // of what is looked up

  Slots slots_, source_slots_;
  AddressTable pages_, source_pages_, registers_;
  CallBlock block_;
  std::array<DeviceBuffer, kArenas> arenas_;
  DeviceBuffer halves_, parts_, branches_;
  PinnedBuffer results_;
  std::array<std::weak_ptr<DeviceOutput>, kOutputPlaces> borrowers_;  // of the logits in each place
  StepMemory step_memory_;
  std::vector<std::unique_ptr<DeviceProgram>> programs_;
  int64_t n_calls_ = 0;

  std::vector<device::Row> rows_;
  std::vector<int32_t> sequence_slots_, source_sequence_slots_, branch_slots_;
  std::vector<device::Patch> patches_;
  std::vector<RunRow> tail_rows_;
  std::vector<std::byte> staging_;
  Waves waves_;
};

}  // namespace kvik::native
