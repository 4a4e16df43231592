#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/cuda/lower.h"
#include "kvik/error.h"

namespace kvik::cuda {
namespace {

using device::Address;
using device::Step;

constexpr int64_t kTickets = 1 << 16;

// The primary context of a GPU, as long as this lives.
class RetainedContext {
 public:
  RetainedContext(std::shared_ptr<const Driver> driver, DeviceIndex index) : driver_(std::move(driver)), index_(index) {
    const Result result = driver_->context_retain(&context_, index);
    if (result != kSuccess) throw Error(Code::kUnsupported, fmt::format("the GPU cannot be used: {}", describe(*driver_, result)));
  }
  ~RetainedContext() { driver_->context_release(index_); }
  RetainedContext(const RetainedContext&) = delete;
  RetainedContext& operator=(const RetainedContext&) = delete;
  void make_current() const { driver_->context_set(context_); }

 private:
  std::shared_ptr<const Driver> driver_;
  DeviceIndex index_;
  Context context_ = nullptr;
};

class CudaRecording final : public device::Recording {
 public:
  CudaRecording(std::shared_ptr<const Driver> driver, std::shared_ptr<const RetainedContext> context, GraphExec exec)
      : driver_(std::move(driver)), context_(std::move(context)), exec_(exec) {}
  ~CudaRecording() override {
    context_->make_current();
    driver_->graph_exec_destroy(exec_);
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  GraphExec exec() const { return exec_; }

 private:
  std::shared_ptr<const Driver> driver_;
  std::shared_ptr<const RetainedContext> context_;
  GraphExec exec_;
};

class CudaDevice final : public device::Device {
 public:
  CudaDevice(std::shared_ptr<const Driver> driver, DeviceIndex index, const KernelTable& table, const CudaOptions& options)
      : driver_(std::move(driver)), context_(std::make_shared<RetainedContext>(driver_, index)), overlaps_(options.overlaps) {
    context_->make_current();
    modules_ = std::make_unique<Modules>(driver_, table);
    char name[256] = {};
    check(driver_->device_name(name, sizeof name - 1, index), "asking for the GPU's name");
    check(driver_->device_memory(&facts_.total_bytes, index), "asking for the GPU's memory");
    facts_.name = name;
    check(driver_->device_attribute(&facts_.n_units, kMultiprocessors, index), "asking for the GPU's multiprocessors");
    facts_.arithmetic = "hopper tensor cores, slices of 256";
    target_.n_units = options.n_units > 0 ? options.n_units : facts_.n_units;
    check(driver_->device_attribute(&target_.shared_bytes, kSharedBytes, index), "asking for the GPU's shared memory");
    constexpr int kStatic = 2 << 10;  // what kernels have besides
    target_.shared_bytes -= kStatic;
    target_.merges_rows = options.merges_rows;
    target_.n_tickets = kTickets;
    constexpr unsigned kNonBlocking = 1;
    check(driver_->stream_create(&stream_, kNonBlocking), "creating a stream");
    target_.tickets = allocate(kTickets * 4, "counters of matrix products");
    check(driver_->set_bytes(static_cast<Pointer>(target_.tickets), 0, kTickets * 4, stream_), "clearing counters");
    target_.parts = [this](size_t n_bytes) { return parts(n_bytes); };
  }

  ~CudaDevice() override {
    context_->make_current();
    driver_->stream_wait(stream_);
    for (void* memory : pinned_) driver_->free_host(memory);
    for (const Address memory : parts_) driver_->free(static_cast<Pointer>(memory));
    driver_->free(static_cast<Pointer>(target_.tickets));
    driver_->stream_destroy(stream_);
    modules_.reset();
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const device::Facts& facts() const override { return facts_; }

  size_t free_bytes() const override {
    size_t free = 0, total = 0;
    context_->make_current();
    return driver_->memory_info(&free, &total) == kSuccess ? free : 0;
  }

  Address allocate(size_t n_bytes, std::string_view what) override {
    enter();
    Pointer pointer = 0;
    const Result result = driver_->allocate(&pointer, std::max<size_t>(n_bytes, 1));
    if (result == kOutOfMemory) {
      throw Error(Code::kTooLarge,
                  fmt::format("no memory for {} on {}: {} MB needed, {} MB free; close sessions, or use --kv q8 or a smaller "
                              "--context",
                              what, facts_.name, n_bytes / 1'000'000, free_bytes() / 1'000'000));
    }
    check(result, "allocating memory");
    return Address{pointer};
  }

  void release(Address address) noexcept override {
    if (address == Address::kNone) return;
    context_->make_current();
    driver_->stream_wait(stream_);
    driver_->free(static_cast<Pointer>(address));
  }

  std::span<std::byte> pinned(size_t n_bytes) override {
    enter();
    void* memory = nullptr;
    check(driver_->allocate_host(&memory, std::max<size_t>(n_bytes, 1), 0), "allocating host memory");
    pinned_.push_back(memory);
    pinned_ranges_.push_back({static_cast<std::byte*>(memory), n_bytes});
    return {static_cast<std::byte*>(memory), n_bytes};
  }

  // The driver reads memory that is not pinned before it returns.
  void write(Address to, std::span<const std::byte> from) override {
    enter();
    if (from.empty()) return;
    check(driver_->copy_to_device(static_cast<Pointer>(to), from.data(), from.size(), stream_), "writing to the GPU");
    const auto holds = [&](std::span<const std::byte> range) {
      return from.data() >= range.data() && from.data() < range.data() + range.size();
    };
    if (std::ranges::any_of(pinned_ranges_, holds)) wait();
  }

  void copy(Address to, Address from, size_t n_bytes) override {
    enter();
    if (n_bytes > 0)
      check(driver_->copy_on_device(static_cast<Pointer>(to), static_cast<Pointer>(from), n_bytes, stream_), "copying on the GPU");
  }

  void run(const Step& step) override {
    enter();
    for (const Action& action : lower({&step, 1}, target_)) start(action);
  }

  std::unique_ptr<device::Recording> record(std::span<const Step> steps) override {
    enter();
    const std::vector<Action> actions = lower(steps, target_);
    for (const Action& action : actions) {
      if (const auto* launch = std::get_if<Launch>(&action))
        modules_->get(launch->kernel, launch->shared_bytes);  // loads, which a capture must not
    }
    constexpr int kThreadLocal = 1;
    check(driver_->capture_begin(stream_, kThreadLocal), "recording steps");
    Graph graph = nullptr;
    follows_launch_ = false;
    try {
      for (const Action& action : actions) start(action);
    } catch (...) {
      driver_->capture_end(stream_, &graph);
      if (graph != nullptr) driver_->graph_destroy(graph);
      throw;
    }
    check(driver_->capture_end(stream_, &graph), "recording steps");
    GraphExec exec = nullptr;
    const Result result = driver_->graph_instantiate(&exec, graph, 0);
    driver_->graph_destroy(graph);
    check(result, "recording steps");
    return std::make_unique<CudaRecording>(driver_, context_, exec);
  }

  void replay(const device::Recording& recording) override {
    enter();
    follows_launch_ = false;
    check(driver_->graph_launch(static_cast<const CudaRecording&>(recording).exec(), stream_), "replaying steps");
  }

  void read(std::span<std::byte> to, Address from) override {
    enter();
    if (!to.empty()) check(driver_->copy_to_host(to.data(), static_cast<Pointer>(from), to.size(), stream_), "reading from the GPU");
    wait();
  }

  void wait() override {
    enter();
    check(driver_->stream_wait(stream_), "computing");
  }

 private:
  void enter() {
    if (!failure_.empty()) throw Error(Code::kInternal, failure_);
    context_->make_current();
  }

  void check(Result result, std::string_view doing) {
    if (result == kSuccess) return;
    failure_ = fmt::format("the GPU failed while {} ({}); load the model again", doing, describe(*driver_, result));
    throw Error(Code::kInternal, failure_);
  }

  // Recordings keep the address they were made with, so memory that has become too small stays.
  Address parts(size_t n_bytes) {
    if (parts_bytes_ < n_bytes) {
      const size_t bytes = std::max(n_bytes, size_t{4} << 20);
      parts_.push_back(allocate(bytes, "sums of matrix products"));
      parts_bytes_ = bytes;
    }
    return parts_.back();
  }

  void start(const Action& action) {
    if (const auto* launch = std::get_if<Launch>(&action)) return start(*launch);
    follows_launch_ = false;
    if (const auto* copied = std::get_if<device::CopyBytes>(&action)) {
      return check(driver_->copy_on_device(static_cast<Pointer>(copied->to), static_cast<Pointer>(copied->from),
                                           static_cast<size_t>(copied->n_bytes), stream_),
                   "copying on the GPU");
    }
    if (const auto* written = std::get_if<device::WriteBytes>(&action)) {
      return check(
          driver_->copy_to_device(static_cast<Pointer>(written->to), written->from, static_cast<size_t>(written->n_bytes), stream_),
          "writing to the GPU");
    }
    const auto& read = std::get<device::ReadBytes>(action);
    check(driver_->copy_to_host(read.to, static_cast<Pointer>(read.from), static_cast<size_t>(read.n_bytes), stream_),
          "reading from the GPU");
  }

  void start(const Launch& launch) {
    LaunchAttribute attribute{.id = kProgrammaticSerialization};
    attribute.value.allowed = 1;
    const LaunchConfig config{launch.grid[0],
                              launch.grid[1],
                              launch.grid[2],
                              launch.n_threads,
                              1,
                              1,
                              static_cast<unsigned>(launch.shared_bytes),
                              stream_,
                              &attribute,
                              overlaps_ && follows_launch_ ? 1u : 0u};
    follows_launch_ = true;
    void* arguments[] = {const_cast<std::byte*>(launch.argument.data())};
    check(driver_->launch(&config, modules_->get(launch.kernel, launch.shared_bytes), arguments, nullptr), "starting a kernel");
  }

  std::shared_ptr<const Driver> driver_;
  std::shared_ptr<const RetainedContext> context_;
  std::unique_ptr<Modules> modules_;
  device::Facts facts_;
  Target target_;
  Stream stream_ = nullptr;
  std::vector<void*> pinned_;
  std::vector<std::span<const std::byte>> pinned_ranges_;
  std::vector<Address> parts_;  // the last one is in use
  size_t parts_bytes_ = 0;
  bool overlaps_;
  bool follows_launch_ = false;  // the last thing started was a kernel: the next one may overlap it
  std::string failure_;          // of a device that can do nothing more
};

}  // namespace

std::shared_ptr<device::Device> open_device(const CudaOptions& options) {
  const std::shared_ptr<const Driver> driver = open_driver(options.driver);
  const Result started = driver->init(0);
  int n_devices = 0;
  if (started == kSuccess) driver->device_count(&n_devices);
  if (started != kSuccess && started != kNoDevice)
    throw Error(Code::kUnsupported, fmt::format("NVIDIA's driver cannot be started: {}", describe(*driver, started)));
  if (n_devices == 0) throw Error(Code::kUnsupported, "no NVIDIA GPU was found; use --device cpu");
  if (options.index < 0 || options.index >= n_devices)
    throw Error(Code::kBadArgument, fmt::format("there is no GPU {}; expected 0 to {}", options.index, n_devices - 1));
  DeviceIndex index = 0;
  int major = 0, minor = 0;
  driver->device_get(&index, options.index);
  driver->device_attribute(&major, kMajor, index);
  driver->device_attribute(&minor, kMinor, index);
  if (major != 9 || minor != 0) {
    throw Error(Code::kUnsupported,
                fmt::format("the GPU has compute capability {}.{}, and the kernels need 9.0 (Hopper); use --device cpu", major, minor));
  }
  return std::make_shared<CudaDevice>(driver, index, open_kernels(options.kernels), options);
}

}  // namespace kvik::cuda
