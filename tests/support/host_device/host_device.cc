#include "support/host_device/host_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

#include "kvik/error.h"
#include "support/host_device/host_steps.h"

namespace kvik::testing_support {
namespace {

constexpr size_t kAlignment = 256;

struct HostRecording final : device::Recording {
  explicit HostRecording(std::span<const device::Step> all) : steps(all.begin(), all.end()) {}
  std::vector<device::Step> steps;
};

}  // namespace

HostDevice::HostDevice(const Options& options) : options_(options) {
  facts_ = {"host", options.n_units, options.total_bytes, "hopper tensor cores, slices of 256"};
}

HostDevice::~HostDevice() {
  for (const auto& [address, n_bytes] : blocks_) std::free(reinterpret_cast<void*>(address));
}

device::Address HostDevice::allocate(size_t n_bytes, std::string_view what) {
  check_alive();
  if (n_allocations_++ == options_.fail_allocation || n_bytes > free_bytes())
    throw Error(Code::kTooLarge, fmt::format("no memory for {}: {} bytes needed, {} free", what, n_bytes, free_bytes()));
  const size_t padded = (n_bytes + kAlignment) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, padded);
  if (memory == nullptr) throw Error(Code::kTooLarge, fmt::format("cannot allocate {} bytes", padded));
  std::memset(memory, 0xff, padded);  // NaN: whoever reads what was not written is found out
  blocks_[reinterpret_cast<uint64_t>(memory)] = n_bytes;
  used_bytes_ += n_bytes;
  return device::Address{reinterpret_cast<uint64_t>(memory)};
}

void HostDevice::queue(std::function<void()> work) {
  ++n_started_;
  if (!options_.late) return work();
  queue_.push_back(std::move(work));
}

void HostDevice::execute_queued(size_t n) {
  for (size_t i = 0; i < n && !queue_.empty(); ++i) {
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    work();
  }
}

void HostDevice::finish_quietly() noexcept {
  try {
    if (!failed_) execute_queued(queue_.size());
  } catch (const Error&) {}
}

void HostDevice::release(device::Address address) noexcept {
  finish_quietly();
  const auto block = blocks_.find(static_cast<uint64_t>(address));
  if (block == blocks_.end()) return;
  used_bytes_ -= block->second;
  std::free(at(address));
  blocks_.erase(block);
}

std::span<std::byte> HostDevice::pinned(size_t n_bytes) {
  check_alive();
  if (n_allocations_++ == options_.fail_allocation)
    throw Error(Code::kTooLarge, fmt::format("no memory of the host: {} bytes needed", n_bytes));
  return pinned_.emplace_back(n_bytes);
}

void HostDevice::release_pinned(std::span<std::byte> memory) noexcept {
  finish_quietly();
  pinned_.remove_if([&](const std::vector<std::byte>& one) { return one.data() == memory.data(); });
}

void HostDevice::check_range(device::Address address, size_t n_bytes) const {
  const auto value = static_cast<uint64_t>(address);
  const auto is_in = [&](const std::vector<std::byte>& one) {
    const auto begin = reinterpret_cast<uintptr_t>(one.data());
    return value >= begin && value + n_bytes <= begin + one.size();
  };
  if (std::ranges::any_of(pinned_, is_in)) return;
  auto block = blocks_.upper_bound(value);
  if (n_bytes == 0) return;
  if (block == blocks_.begin() || value + n_bytes > (--block)->first + block->second)
    throw Error(Code::kInternal, fmt::format("{} bytes at {:#x} are not inside an allocation of the device", n_bytes, value));
}

void HostDevice::check_alive() const {
  if (failed_) throw Error(Code::kInternal, "the device has failed; load the model again");
}

void HostDevice::write(device::Address to, std::span<const std::byte> from) {
  check_alive();
  check_range(to, from.size());
  ++calls_.writes;
  queue([to, bytes = std::vector<std::byte>(from.begin(), from.end())] {
    if (!bytes.empty()) std::memcpy(at(to), bytes.data(), bytes.size());
  });
}

void HostDevice::copy(device::Address to, device::Address from, size_t n_bytes) {
  check_alive();
  check_range(to, n_bytes);
  check_range(from, n_bytes);
  ++calls_.copies;
  queue([=] {
    if (n_bytes > 0) std::memmove(at(to), at(from), n_bytes);
  });
}

void HostDevice::run(const device::Step& step) {
  ++calls_.runs;
  queue([this, step] { execute_step(step); });
}

void HostDevice::execute_step(const device::Step& step) {
  check_alive();
  if (n_steps_++ == options_.fail_step) {
    failed_ = true;
    check_alive();
  }
  std::visit([](const auto& args) { execute(args); }, step);
}

std::unique_ptr<device::Recording> HostDevice::record(std::span<const device::Step> steps, device::Replay /*how*/) {
  check_alive();
  ++calls_.records;
  return std::make_unique<HostRecording>(steps);
}

void HostDevice::replay(const device::Recording& recording) {
  ++calls_.replays;
  for (const device::Step& step : static_cast<const HostRecording&>(recording).steps) {
    queue([this, step] {
      execute_step(step);
      if (timer_) timer_(fmt::format("step {}", step.index()), 1e-6, 0);
    });
  }
}

void HostDevice::read(std::span<std::byte> to, device::Address from) {
  check_alive();
  check_range(from, to.size());
  execute_queued(queue_.size());
  ++calls_.reads;
  calls_.read_bytes += to.size();
  if (!to.empty()) std::memcpy(to.data(), at(from), to.size());
}

void HostDevice::wait() {
  check_alive();
  execute_queued(queue_.size());
  ++calls_.waits;
}

device::Mark HostDevice::mark() {
  check_alive();
  return device::Mark{n_started_};
}

void HostDevice::wait(device::Mark mark) {
  check_alive();
  const uint64_t n_done = n_started_ - queue_.size(), wanted = static_cast<uint64_t>(mark);
  if (wanted > n_done) execute_queued(wanted - n_done);
  ++calls_.waits;
}

}  // namespace kvik::testing_support
