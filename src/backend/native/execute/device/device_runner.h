#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/native/execute/device/device_output.h"
#include "backend/native/execute/device/device_program.h"
#include "backend/native/execute/device/host_step.h"
#include "backend/native/execute/device/output_places.h"
#include "backend/native/execute/device/page_tables.h"
#include "backend/native/execute/device/run_ahead.h"
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
    bool runs_ahead = true;                    // see RunAhead; never while kernels are measured
    Recorder* recorder = nullptr;              // measures each kernel; may be null
  };
  explicit DeviceRunner(Parts parts);
  ~DeviceRunner() override;

  const Plan& plan() const override { return *plan_.plan; }
  int preferred_rows() const override;
  bool runs_ahead() const override { return runs_ahead_ && can_run_ahead_; }
  const std::shared_ptr<kv::PageMemory>& memory() const override { return memory_; }
  const CacheBytes& cache_bytes() const override { return cache_bytes_; }
  void clear_positions(std::byte* page, int first) const override;
  void copy_positions(kv::PageAddress from, kv::PageAddress to, int n) const override;
  void prepare(std::span<const RunRow> rows) override;
  void prepare_source(std::span<const RunRow> rows) override;
  void run(const RunCall& call) override;
  std::shared_ptr<OutputRows> keep_output(std::span<const int32_t> n_candidates, std::shared_ptr<OutputRows> reused) override;
  void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                  std::span<const std::span<const float>> inputs) override;

 private:
  void run_rows(const RunCall& call);
  void check_tokens(const RunCall& call) const;
  DeviceProgram& prepare_call(const RunCall& call, bool source);
  void reserve(const CallShape& shape, const RunCall& call);
  void reserve_buffer(DeviceBuffer& buffer, int64_t n_bytes, std::string_view what);
  void reserve_results(PinnedBuffer& results, size_t n_bytes);
  struct OutputBytes {
    int64_t logits;
    size_t results;
  };
  OutputBytes output_bytes(const CallShape& shape) const;
  void reserve_output(const CallShape& shape);
  DeviceBuffer& output_memory(int32_t place) { return arenas_[static_cast<size_t>(output_arena(place))]; }
  const PinnedBuffer& results_of(const DeviceProgram& program) const { return results_[host_place(program.shape.output_place)]; }
  std::pair<int64_t, int64_t> assign_slots(const RunCall& call);
  DeviceProgram& program_for(const CallShape& shape);
  size_t most_patches(const CallShape& shape) const;
  void find_patches(const RunCall& call, size_t most);
  void list_rows(const RunCall& call, std::vector<device::Row>& rows) const;
  void send_rows(const RunCall& call, const DeviceProgram& program);
  void send_value(ValueIndex value, const ValueAt& at, std::span<const float> rows, size_t n_rows);
  void start(const RunCall& call, DeviceProgram& program);
  void execute(DeviceProgram& program, const RunCall& call);
  void replay(Segment& segment, bool often);
  void finish(const DeviceProgram& program);
  void read_output(const DeviceProgram& program, const RunCall& call, std::optional<device::Mark> done);
  // start_next.cc
  bool plan_can_run_ahead() const;
  DeviceProgram* take_started(const RunCall& call);
  bool holds_pages(const RunCall& call) const;
  void abandon_started();
  std::optional<device::Mark> start_next(const RunCall& call, const DeviceProgram& program);
  bool may_continue(const RunCall& call, const DeviceProgram& program) const;
  bool set_next_call(const RunCall& call);
  DeviceProgram* find_next_program(const CallShape& shape);
  void end_call(const RunCall& call, const DeviceProgram& program);
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
  bool records_, runs_ahead_;
  bool can_run_ahead_ = false;      // this plan
  int64_t most_token_ = INT64_MAX;  // of what is looked up

  Slots slots_, source_slots_;
  AddressTable pages_, source_pages_, registers_;
  CallBlock block_;
  std::array<DeviceBuffer, kArenas> arenas_;
  DeviceBuffer halves_, parts_, branches_, largest_;
  std::array<PinnedBuffer, kHostPlaces> results_;
  OutputPlaces places_;
  RunAhead ahead_;
  StepMemory step_memory_;
  std::vector<std::unique_ptr<DeviceProgram>> programs_;
  int64_t n_calls_ = 0;

  std::vector<device::Row> rows_;
  std::vector<int32_t> sequence_slots_, source_sequence_slots_, branch_slots_;
  std::vector<device::Patch> patches_;
  std::vector<RunRow> tail_rows_;
  std::vector<RunRow> next_rows_;
  std::vector<RunSequence> next_sequences_;
  std::vector<int32_t> chosen_;
  std::vector<std::byte> staging_;
  Waves waves_;
};

}  // namespace kvik::native
