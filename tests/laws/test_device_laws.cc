// The laws of the native backend on a device, whose arithmetic HostDevice defines: equal bits, however a row was computed.
#include <cmath>
#include <gmock/gmock.h>

#include "laws/native.h"
#include "support/host_device/host_device.h"
#include "verify/decoder_laws.h"

namespace kvik::testing_support {
namespace {

struct DeviceModel {
  std::string name;
  std::filesystem::path folder;
};

BackendPtr open_on(const std::shared_ptr<device::Device>& device, const std::filesystem::path& folder, backend::NativeOptions options = {}) {
  options.device = device;
  options.n_threads = 1;
  return open_native(folder, options);
}

// Null if the model does not compile for the native backend.
BackendPtr try_on(const std::shared_ptr<device::Device>& device, const std::filesystem::path& folder) {
  try {
    return open_on(device, folder);
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupported) return nullptr;
    throw;
  }
}

std::vector<DeviceModel> device_models() {
  std::vector<DeviceModel> models;
  for (const KnownDecoder& decoder : known_decoders()) {
    if (decoder.folder.string().starts_with(fixtures().string())) models.push_back({decoder.name, decoder.folder});
  }
  return models;
}

double spread_between(const LogitsRow& row) {
  const auto [low, high] = std::ranges::minmax(row);
  return static_cast<double>(high) - low;
}

double largest_difference(const LogitsRow& a, const LogitsRow& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

class DeviceLaws : public testing::TestWithParam<DeviceModel> {
 protected:
  void SetUp() override {
    device_ = std::make_shared<HostDevice>();
    backend_ = try_on(device_, GetParam().folder);
    if (backend_ == nullptr) GTEST_SKIP() << "not compiled natively";
    const int limit = backend_->traits().max_positions;
    ids_ = synthetic_ids(limit > 0 ? std::min(limit - 1, 9) : 9, backend_->traits().vocab);
  }

  std::shared_ptr<HostDevice> device_;
  BackendPtr backend_;
  std::vector<TokenId> ids_;
};

TEST_P(DeviceLaws, CachedUncachedSplitForkedRewoundResetAndBatchedAreEqual) {
  laws::DecoderLaws options;
  options.prompt = ids_;
  options.tolerance = 0;
  for (const Law& law : laws::verify_decoder(backend_, options)) {
    EXPECT_TRUE(law.holds && law.exact) << GetParam().name << ": " << law.name << ": " << law.detail;
  }
}

TEST_P(DeviceLaws, LogitsAreThoseOfTheCpuWithinRounding) {
  EXPECT_GT(device_->n_steps(), 0);
  const std::vector<LogitsRow> here = rows_of(backend_, ids_), cpu = rows_of(open_native(GetParam().folder, backend::NativeOptions{}), ids_);
  for (size_t i = 0; i < here.size(); ++i)
    EXPECT_LE(largest_difference(here[i], cpu[i]), 0.02 * spread_between(cpu[i]) + 1e-6) << GetParam().name << ", row " << i;
}

std::string name_of_model(const testing::TestParamInfo<DeviceModel>& model) {
  std::string name = model.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceLaws, testing::ValuesIn(device_models()), name_of_model);

}  // namespace
}  // namespace kvik::testing_support
