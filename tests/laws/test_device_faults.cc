// A device without memory refuses a call and has changed nothing; a device that fails says so from then on.
#include <gmock/gmock.h>

#include "laws/on_device.h"

namespace kvik::testing_support {
namespace {

constexpr int kPrompt = 20;

// Runs the prompt on a cache that is empty.
LogitsRow last_row(const BackendPtr& backend, backend::Cache& cache, std::span<const TokenId> ids) {
  std::vector<backend::Row> rows;
  for (size_t i = 0; i < ids.size(); ++i) rows.push_back({ids[i], static_cast<int>(i), 0, i + 1 == ids.size()});
  backend::Logits logits;
  backend::Cache* const caches[] = {&cache};
  if (backend->run(rows, caches, logits) != backend::RunStatus::kDone) throw Error(Code::kTooLarge, "no room");
  return {logits.row(0).begin(), logits.row(0).end()};
}

std::optional<Code> code_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& e) { return e.code(); }
  return std::nullopt;
}

class DeviceFaults : public testing::TestWithParam<std::string> {};

TEST_P(DeviceFaults, AnyAllocationThatFailsChangesNothing) {
  const auto counted = std::make_shared<HostDevice>();
  const BackendPtr plain = open_on(counted, form(GetParam()));
  const std::vector<TokenId> ids = synthetic_ids(kPrompt, plain->traits().vocab);
  const int n_open = counted->n_allocations();
  const LogitsRow expected = last_row(plain, *plain->new_cache(), ids);
  const int n_all = counted->n_allocations();
  ASSERT_GT(n_open, 5);
  ASSERT_GT(n_all, n_open);
  for (int n = 0; n < n_all; ++n) {
    const auto device = std::make_shared<HostDevice>(HostDevice::Options{.fail_allocation = n});
    if (n < n_open) {
      EXPECT_EQ(code_of([&] { open_on(device, form(GetParam())); }), Code::kTooLarge) << "allocation " << n;
      EXPECT_EQ(device->used_bytes(), 0u) << "allocation " << n;
      continue;
    }
    const BackendPtr backend = open_on(device, form(GetParam()));
    std::unique_ptr<backend::Cache> cache;
    if (code_of([&] { cache = backend->new_cache(); }) == Code::kTooLarge) {  // of the registers
      cache = backend->new_cache();
    } else {
      EXPECT_EQ(code_of([&] { last_row(backend, *cache, ids); }), Code::kTooLarge) << "allocation " << n;
      EXPECT_EQ(cache->length(), 0);
    }
    EXPECT_TRUE(same_bits(last_row(backend, *cache, ids), expected)) << "after allocation " << n << " failed";
  }
}

TEST_P(DeviceFaults, AFailedDeviceIsSaidByEveryLaterCall) {
  const auto counted = std::make_shared<HostDevice>();
  const BackendPtr plain = open_on(counted, form(GetParam()));
  const std::vector<TokenId> ids = synthetic_ids(kPrompt, plain->traits().vocab);
  const int n_open = counted->n_steps();
  last_row(plain, *plain->new_cache(), ids);
  const int n_all = counted->n_steps();
  for (int n = n_open; n < n_all; n += std::max(7, (n_all - n_open) / 16)) {
    const auto device = std::make_shared<HostDevice>(HostDevice::Options{.fail_step = n});
    const BackendPtr backend = open_on(device, form(GetParam()));
    const std::unique_ptr<backend::Cache> cache = backend->new_cache(), other = backend->new_cache();
    EXPECT_EQ(code_of([&] { last_row(backend, *cache, ids); }), Code::kInternal) << "step " << n;
    EXPECT_EQ(cache->length(), 0);
    EXPECT_EQ(code_of([&] { last_row(backend, *other, ids); }), Code::kInternal) << "after step " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceFaults, testing::Values("plain", "recurrent"));

TEST(DeviceMemory, ThatIsTooSmallForTheWeightsIsSaidWithBothFigures) {
  const auto device = std::make_shared<HostDevice>(HostDevice::Options{.total_bytes = 1000});
  try {
    open_on(device, form("plain"));
    FAIL() << "the weights fit into 1000 bytes";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kTooLarge);
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("GB"), testing::HasSubstr("--weights")));
  }
}

}  // namespace
}  // namespace kvik::testing_support
