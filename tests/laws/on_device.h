#pragma once

#include "laws/native.h"
#include "support/host_device/host_device.h"

// Models of the native backend on a device, whose arithmetic HostDevice defines.
namespace kvik::testing_support {

inline BackendPtr open_on(const std::shared_ptr<device::Device>& device, const std::filesystem::path& folder,
                          backend::NativeOptions options = {}) {
  options.device = device;
  options.n_threads = 1;
  return open_native(folder, options);
}

inline BackendPtr open_on_host_device(const std::filesystem::path& folder, const backend::NativeOptions& options = {}) {
  return open_on(std::make_shared<HostDevice>(), folder, options);
}

// Null if the model does not compile for the native backend.
inline BackendPtr try_on(const std::shared_ptr<device::Device>& device, const std::filesystem::path& folder) {
  try {
    return open_on(device, folder);
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupported) return nullptr;
    throw;
  }
}

// Rows differ by no more than a share of what the logits span.
inline void expect_near(const std::vector<LogitsRow>& rows, const std::vector<LogitsRow>& expected, double share, const std::string& what) {
  ASSERT_EQ(rows.size(), expected.size()) << what;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [low, high] = std::ranges::minmax(expected[i]);
    double largest = 0;
    for (size_t j = 0; j < rows[i].size(); ++j) largest = std::max(largest, std::abs(static_cast<double>(rows[i][j]) - expected[i][j]));
    EXPECT_LE(largest, share * (static_cast<double>(high) - low) + 1e-6) << what << ", row " << i;
  }
}

inline std::filesystem::path form(const std::string& name) { return fixtures() / "forms" / name; }

}  // namespace kvik::testing_support
