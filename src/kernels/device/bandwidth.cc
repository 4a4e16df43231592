#include "kernels/device/bandwidth.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/device/device.h"

namespace kvik::device {
namespace {

class Room {
 public:
  Room(Device& device, size_t n_bytes) : device_(device), address_(device.allocate(n_bytes, "measuring the bandwidth")) {}
  ~Room() { device_.release(address_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  Address address() const { return address_; }

 private:
  Device& device_;
  Address address_;
};

}  // namespace

double copy_bandwidth_gb_per_s(Device& device) {
  constexpr size_t kMostBytes = size_t{1} << 30;
  constexpr int kPasses = 5, kCopies = 4;
  const size_t n_bytes = std::min(kMostBytes, device.free_bytes() / 8);
  const Room from(device, n_bytes), to(device, n_bytes);
  std::vector<double> rates;
  for (int pass = 0; pass < kPasses; ++pass) {
    device.wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCopies; ++i) device.copy(to.address(), from.address(), n_bytes);
    device.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rates.push_back(2.0 * kCopies * static_cast<double>(n_bytes) / 1e9 / seconds);
  }
  std::ranges::sort(rates);
  return rates[kPasses / 2];
}

}  // namespace kvik::device
