#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "kernels/device/device.h"

namespace kvik::testing_support {

// The arithmetic of device steps by definition: plain C++, one row and one element after another, in host memory. Every law runs on it
// without a GPU, and a GPU has to match its bits.
class HostDevice final : public device::Device {
 public:
  struct Options {
    size_t total_bytes = size_t{64} << 30;
    int n_units = 4;
    int fail_allocation = -1;  // number of the allocation that finds no memory; -1: none does
    int fail_step = -1;        // number of the step at which the device fails for good
    bool late = false;         // executes as late as possible: when the caller waits
  };
  HostDevice() : HostDevice(Options{}) {}
  explicit HostDevice(const Options& options);
  ~HostDevice() override;

  const device::Facts& facts() const override { return facts_; }
  size_t free_bytes() const override { return options_.total_bytes - used_bytes_; }
  device::Address allocate(size_t n_bytes, std::string_view what) override;
  void release(device::Address address) noexcept override;
  std::span<std::byte> pinned(size_t n_bytes) override;
  void release_pinned(std::span<std::byte> memory) noexcept override;
  void write(device::Address to, std::span<const std::byte> from) override;
  void copy(device::Address to, device::Address from, size_t n_bytes) override;
  void run(const device::Step& step) override;
  std::unique_ptr<device::Recording> record(std::span<const device::Step> steps, device::Replay how) override;
  void replay(const device::Recording& recording) override;
  void read(std::span<std::byte> to, device::Address from) override;
  void wait() override;
  device::Mark mark() override;
  void wait(device::Mark mark) override;
  void set_timer(Timer timer) override { timer_ = std::move(timer); }  // every step takes a microsecond

  // Calls since the device was made.
  struct Calls {
    int writes = 0, copies = 0, runs = 0, records = 0, replays = 0, reads = 0, waits = 0;  // waits: for everything or for a mark
    size_t read_bytes = 0;
    friend bool operator==(const Calls&, const Calls&) = default;
  };
  const Calls& calls() const { return calls_; }
  int n_allocations() const { return n_allocations_; }
  int n_steps() const { return n_steps_; }
  size_t used_bytes() const { return used_bytes_; }

 private:
  void check_range(device::Address address, size_t n_bytes) const;
  void check_alive() const;
  void execute_step(const device::Step& step);
  void queue(std::function<void()> work);
  void execute_queued(size_t n);
  void finish_quietly() noexcept;

  Options options_;
  device::Facts facts_;
  std::map<uint64_t, size_t> blocks_;  // address to bytes
  std::list<std::vector<std::byte>> pinned_;
  size_t used_bytes_ = 0;
  Calls calls_;
  int n_allocations_ = 0, n_steps_ = 0;
  bool failed_ = false;
  std::deque<std::function<void()>> queue_;  // if late
  uint64_t n_started_ = 0;                   // ever put into it
  Timer timer_;
};

}  // namespace kvik::testing_support
