#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "kernels/cuda/lower.h"
#include "kvik/error.h"

namespace kvik::cuda {
namespace {

using device::Address;
using device::Step;

constexpr int64_t kTickets = 1 << 16;
constexpr size_t kMarks = 4;

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

// What is started for some steps, with the kernel of a launch.
struct Start {
  Action action;
  Function function = nullptr;
};

struct Launches final : device::Recording {
  explicit Launches(std::vector<Start> all) : starts(std::move(all)) {}
  std::vector<Start> starts;
};

class RecordedGraph final : public device::Recording {
 public:
  RecordedGraph(std::shared_ptr<const Driver> driver, std::shared_ptr<const RetainedContext> context, GraphExec exec)
      : driver_(std::move(driver)), context_(std::move(context)), exec_(exec) {}
  ~RecordedGraph() override {
    context_->make_current();
    driver_->graph_exec_destroy(exec_);
  }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;
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
    target_.wide_products = options.wide_products;
    target_.map_rows = [this](const device::View& rows, int64_t n_columns, int64_t n_rows, int box_rows) {
      return map_rows(rows, n_columns, n_rows, box_rows);
    };
    target_.fuses_products = options.fuses_products;
    target_.fuses_attention = options.fuses_attention;
    target_.chains_rows = options.chains_rows;
    target_.quick_kernels = options.quick_kernels;
    target_.span_warps = options.span_warps;
    target_.n_tickets = kTickets;
    constexpr unsigned kNonBlocking = 1;
    check(driver_->stream_create(&stream_, kNonBlocking), "creating a stream");
    constexpr unsigned kNoTime = 2;
    for (Event& mark : marks_) check(driver_->event_create(&mark, kNoTime), "creating an event");
    target_.tickets = allocate(kTickets * 4, "counters of matrix products");
    check(driver_->set_bytes(static_cast<Pointer>(target_.tickets), 0, kTickets * 4, stream_), "clearing counters");
    target_.largest = allocate(static_cast<size_t>(kStreamRows * target_.n_units) * 4, "the largest elements of rows");
    target_.parts = [this](size_t n_bytes) { return parts(n_bytes); };
  }

  ~CudaDevice() override {
    context_->make_current();
    driver_->stream_wait(stream_);
    for (const std::span<std::byte> memory : pinned_) driver_->free_host(memory.data());
    for (const Event event : events_) driver_->event_destroy(event);
    for (const Event event : marks_) driver_->event_destroy(event);
    for (const Address memory : parts_) driver_->free(static_cast<Pointer>(memory));
    driver_->free(static_cast<Pointer>(target_.tickets));
    driver_->free(static_cast<Pointer>(target_.largest));
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
    const Result result = driver_->allocate_host(&memory, std::max<size_t>(n_bytes, 1), 0);
    if (result == kOutOfMemory)
      throw Error(Code::kTooLarge, fmt::format("no memory of the host that {} can read: {} MB needed", facts_.name, n_bytes / 1'000'000));
    check(result, "allocating host memory");
    return pinned_.emplace_back(static_cast<std::byte*>(memory), n_bytes);
  }

  void release_pinned(std::span<std::byte> memory) noexcept override {
    const auto found = std::ranges::find(pinned_, memory.data(), [](std::span<std::byte> one) { return one.data(); });
    if (found == pinned_.end()) return;
    context_->make_current();
    driver_->stream_wait(stream_);
    driver_->free_host(memory.data());
    pinned_.erase(found);
  }

  // The driver reads memory that is not pinned before it returns.
  void write(Address to, std::span<const std::byte> from) override {
    enter();
    if (from.empty()) return;
    check(driver_->copy_to_device(static_cast<Pointer>(to), from.data(), from.size(), stream_), "writing to the GPU");
    const auto holds = [&](std::span<const std::byte> range) {
      return from.data() >= range.data() && from.data() < range.data() + range.size();
    };
    if (std::ranges::any_of(pinned_, holds)) wait();
  }

  void copy(Address to, Address from, size_t n_bytes) override {
    enter();
    if (n_bytes > 0) check(driver_->copy(static_cast<Pointer>(to), static_cast<Pointer>(from), n_bytes, stream_), "copying memory");
  }

  void run(const Step& step) override {
    enter();
    for (const Start& one : starts_of({&step, 1})) start(one);
  }

  std::unique_ptr<device::Recording> record(std::span<const Step> steps, device::Replay how) override {
    enter();
    std::vector<Start> starts = starts_of(steps);  // loads kernels, which a capture must not
    if (how == device::Replay::kOneByOne || timer_) return std::make_unique<Launches>(std::move(starts));
    constexpr int kThreadLocal = 1;
    check(driver_->capture_begin(stream_, kThreadLocal), "recording steps");
    Graph graph = nullptr;
    follows_launch_ = false;
    try {
      for (const Start& one : starts) start(one);
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
    return std::make_unique<RecordedGraph>(driver_, context_, exec);
  }

  void replay(const device::Recording& recording) override {
    enter();
    follows_launch_ = false;
    if (const auto* launches = dynamic_cast<const Launches*>(&recording)) {
      if (timer_) return time(launches->starts);
      for (const Start& one : launches->starts) start(one);
      return;
    }
    check(driver_->graph_launch(static_cast<const RecordedGraph&>(recording).exec(), stream_), "replaying steps");
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

  device::Mark mark() override {
    enter();
    check(driver_->event_record(marks_[n_marks_ % kMarks], stream_), "marking a step");
    return device::Mark{n_marks_++};
  }

  // An event that was recorded again since is a later mark, before which everything was started that is waited for.
  void wait(device::Mark mark) override {
    enter();
    check(driver_->event_wait(marks_[static_cast<uint64_t>(mark) % kMarks]), "computing");
  }

  void set_timer(Timer timer) override { timer_ = std::move(timer); }

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

  // Between events: launches do not overlap.
  void time(std::span<const Start> starts) {
    while (events_.size() <= starts.size()) check(driver_->event_create(&events_.emplace_back(nullptr), 0), "measuring time");
    check(driver_->event_record(events_[0], stream_), "measuring time");
    for (size_t i = 0; i < starts.size(); ++i) {
      follows_launch_ = false;
      start(starts[i]);
      check(driver_->event_record(events_[i + 1], stream_), "measuring time");
    }
    wait();
    for (size_t i = 0; i < starts.size(); ++i) {
      float ms = 0, ms_ago = 0;
      check(driver_->event_elapsed(&ms, events_[i], events_[i + 1]), "measuring time");
      check(driver_->event_elapsed(&ms_ago, events_[i + 1], events_[starts.size()]), "measuring time");
      const auto* launch = std::get_if<Launch>(&starts[i].action);
      timer_(launch != nullptr ? std::string_view(launch->kernel) : "copy", ms * 1e-3, ms_ago * 1e-3);
    }
  }

  TensorMap map_rows(const device::View& rows, int64_t n_columns, int64_t n_rows, int box_rows) {
    TensorMap map;
    const uint64_t sizes[] = {static_cast<uint64_t>(n_columns), static_cast<uint64_t>(n_rows)};
    const uint64_t strides[] = {static_cast<uint64_t>(rows.stride)};
    const unsigned box[] = {64, static_cast<unsigned>(box_rows)}, element_strides[] = {1, 1};
    check(driver_->encode_map(&map, kMapFloat16, 2, reinterpret_cast<void*>(static_cast<uintptr_t>(rows.base)), sizes, strides, box,
                              element_strides, 0, kMapSwizzle128, kMapPromotion256, 0),
          "describing rows");
    return map;
  }

  std::vector<Start> starts_of(std::span<const Step> steps) {
    std::vector<Start> starts;
    for (Action& action : lower(steps, target_)) {
      const auto* launch = std::get_if<Launch>(&action);
      const Function function = launch != nullptr ? modules_->get(launch->kernel, launch->shared_bytes) : nullptr;
      starts.push_back({std::move(action), function});
    }
    return starts;
  }

  void start(const Start& one) {
    if (const auto* launch = std::get_if<Launch>(&one.action)) return start(*launch, one.function);
    follows_launch_ = false;
    const auto& copied = std::get<device::CopyBytes>(one.action);
    copy(copied.to, copied.from, static_cast<size_t>(copied.n_bytes));
  }

  void start(const Launch& launch, Function function) {
    LaunchAttribute attributes[2] = {};
    unsigned n_attributes = 0;
    if (overlaps_ && follows_launch_) {
      attributes[n_attributes].id = kProgrammaticSerialization;
      attributes[n_attributes++].value.allowed = 1;
    }
    if (launch.cluster > 1) {
      attributes[n_attributes].id = kClusterDimension;
      unsigned* cluster = attributes[n_attributes++].value.cluster;
      cluster[0] = launch.cluster, cluster[1] = cluster[2] = 1;
    }
    const LaunchConfig config{
        launch.grid[0], launch.grid[1], launch.grid[2], launch.n_threads, 1, 1, static_cast<unsigned>(launch.shared_bytes),
        stream_,        attributes,     n_attributes};
    follows_launch_ = true;
    void* arguments[] = {const_cast<std::byte*>(launch.argument.data())};
    check(driver_->launch(&config, function, arguments, nullptr), "starting a kernel");
  }

  std::shared_ptr<const Driver> driver_;
  std::shared_ptr<const RetainedContext> context_;
  std::unique_ptr<Modules> modules_;
  device::Facts facts_;
  Target target_;
  Stream stream_ = nullptr;
  std::vector<std::span<std::byte>> pinned_;
  std::vector<Address> parts_;  // the last one is in use
  size_t parts_bytes_ = 0;
  bool overlaps_;
  bool follows_launch_ = false;  // the last thing started was a kernel: the next one may overlap it
  Timer timer_;
  std::vector<Event> events_;
  std::array<Event, kMarks> marks_ = {};
  uint64_t n_marks_ = 0;
  std::string failure_;  // of a device that can do nothing more
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
