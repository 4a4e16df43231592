#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/device/steps.h"

// Something that holds memory and executes steps: a GPU (kernels/cuda), or the definition of the arithmetic in plain C++ that tests compare
// it with (tests/support/host_device).
namespace kvik::device {

using Step = std::variant<Begin, Embed, ToHalf, Matrix, Elementwise, Norm, Softmax, Reduction, Rotary, Move, Append, Attend, MergeSpans,
                          Register, GatherRows, Choose, CopyBytes>;

struct Facts {
  std::string name;        // "NVIDIA H200"
  int n_units = 1;         // multiprocessors
  size_t total_bytes = 0;  // memory
  std::string arithmetic;  // how one tensor-core sum is computed, and kernels/device/order.h: caches of equal arithmetic may be exchanged
};

// How recorded steps are replayed: in one go, which costs more to record, or launched one after another.
enum class Replay : uint8_t { kAtOnce, kOneByOne };

// Steps that were recorded once and are replayed. Belongs to its device; memory they refer to must outlive it.
class Recording {
 public:
  virtual ~Recording() = default;
};

enum class Mark : uint64_t {};

// For one thread at a time. write(), copy(), run() and replay() are executed in the order of the calls, but may return before they are
// done; an error of theirs may be thrown by a later call. After a failure every call but release() throws Error(kInternal) with its
// sentence.
class Device {
 public:
  virtual ~Device() = default;
  virtual const Facts& facts() const = 0;
  virtual size_t free_bytes() const = 0;

  // 256-byte aligned, not initialized. Throws Error(kTooLarge): what for, bytes needed, bytes free. `what` completes "no memory for …".
  virtual Address allocate(size_t n_bytes, std::string_view what) = 0;
  virtual void release(Address address) noexcept = 0;  // kNone is fine; waits for what uses it
  // Host memory for fast copies, 64-byte aligned, which steps can read and write as well: see host_address(). Released with the device at
  // the latest.
  virtual std::span<std::byte> pinned(size_t n_bytes) = 0;
  virtual void release_pinned(std::span<std::byte> memory) noexcept = 0;  // waits for what uses it

  virtual void write(Address to, std::span<const std::byte> from) = 0;  // `from` may be reused at once
  virtual void copy(Address to, Address from, size_t n_bytes) = 0;      // either may be in memory that pinned() gave
  virtual void run(const Step& step) = 0;
  virtual std::unique_ptr<Recording> record(std::span<const Step> steps, Replay how = Replay::kAtOnce) = 0;  // executes nothing
  virtual void replay(const Recording& recording) = 0;
  virtual void read(std::span<std::byte> to, Address from) = 0;  // waits
  virtual void wait() = 0;
  // A point in the order of calls. wait(mark) waits for what was started before it, but not for what was started after it.
  virtual Mark mark() = 0;
  virtual void wait(Mark mark) = 0;

  // Where time goes: from now on recordings are made and replayed kernel by kernel, one after the other, and `timer` gets how long each of
  // them took and how long ago it ended. For measurements; slower, with the same results.
  using Timer = std::function<void(std::string_view kernel, double seconds, double seconds_ago)>;
  virtual void set_timer(Timer timer) = 0;
};

// Of memory that Device::pinned() gave: the same on the device.
inline Address host_address(const void* memory) { return Address{reinterpret_cast<uintptr_t>(memory)}; }

}  // namespace kvik::device
