// What a step asks of a device: on a GPU every call costs microseconds, and every wait more.
#include <gmock/gmock.h>

#include "engine/decoder.h"
#include "engine/sample_strategy.h"
#include "laws/on_device.h"

namespace kvik::testing_support {
namespace {

using engine::Decoder;
using engine::SampleStrategy;
using engine::Stream;
using Calls = HostDevice::Calls;

Calls difference(Calls a, const Calls& b) {
  a.writes -= b.writes, a.copies -= b.copies, a.runs -= b.runs, a.records -= b.records;
  a.replays -= b.replays, a.reads -= b.reads, a.waits -= b.waits;
  a.read_bytes -= b.read_bytes;
  return a;
}

class DeviceSteps : public testing::Test {
 protected:
  // Streams of different prompts, all of which have computed them and some tokens more.
  void start(size_t n_streams, const Sampling& sampling, const backend::NativeOptions& options = {}) {
    backend_ = open_on(device_, fixtures() / "zoo" / "small-merged", options);
    decoder_ = std::make_shared<Decoder>(backend_);
    const auto sampler =
        std::make_shared<sample::Sampler>(sampling, sample::TokenRules{static_cast<size_t>(backend_->traits().vocab), {}, {}});
    for (size_t i = 0; i < n_streams; ++i) {
      const engine::SampleOptions sample_options{.stop = {{}, 100, nullptr}, .prompt_length = kPrompt, .scores = false, .seed = i};
      streams_.emplace_back(engine::Sequence(decoder_, 0), std::make_unique<SampleStrategy>(sampler, sample_options));
      for (const TokenId token : synthetic_ids(kPrompt, backend_->traits().vocab, static_cast<int>(i)))
        streams_.back().branches.front().push(token);
    }
    for (Stream& stream : streams_) pointers_.push_back(&stream);
    for (int i = 0; i < kRecordings && n_streams > 0; ++i) step();
  }

  Calls step() {
    const Calls before = device_->calls();
    EXPECT_EQ(decoder_->step(pointers_), engine::StepStatus::kWorked);
    return difference(device_->calls(), before);
  }

  static constexpr size_t kPrompt = 16;
  static constexpr int kRecordings = 12;  // steps until there are recordings for all places of logits
  std::shared_ptr<HostDevice> device_ = std::make_shared<HostDevice>();
  BackendPtr backend_;
  std::shared_ptr<Decoder> decoder_;
  std::vector<Stream> streams_;
  std::vector<Stream*> pointers_;
};

// Logits stay where they were computed; what was chosen is in host memory after the wait. What is replayed in a greedy step is the next
// one.
constexpr Calls kSteady{.replays = 1, .waits = 1};

TEST_F(DeviceSteps, ThatAreGreedyReplayOnceWaitOnceAndReadNothing) {
  start(3, {.temperature = 0.0});
  const int n_allocations = device_->n_allocations();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(step(), kSteady) << "step " << i;  // across the end of a page
  EXPECT_EQ(device_->n_allocations(), n_allocations);
}

TEST_F(DeviceSteps, ThatDrawFromTheLargestLogitsDoTheSame) {
  start(3, {.temperature = 1.0, .top_k = 5}, {.runs_ahead = false});  // what is drawn is the largest logit by chance
  for (int i = 0; i < 8; ++i) EXPECT_EQ(step(), kSteady) << "step " << i;
}

TEST_F(DeviceSteps, ThatNeedAllLogitsReadThemAtOnce) {
  start(3, {.temperature = 1.0, .top_k = 0});
  const int n_allocations = device_->n_allocations();
  const Calls calls = step();
  EXPECT_EQ(calls.replays, 1);
  EXPECT_EQ(calls.waits, 1);
  EXPECT_EQ(calls.reads, 0);
  EXPECT_LE(calls.copies, 3);
  EXPECT_EQ(device_->n_allocations(), n_allocations);
}

TEST_F(DeviceSteps, KeepLogitsThatOtherCallsWouldOverwrite) {
  start(0, {});
  const int vocab = backend_->traits().vocab;
  const auto ids_of = [&](int i) { return synthetic_ids(static_cast<size_t>(5 + i), vocab, i); };
  const Calls before = device_->calls();
  for (int i = 0; i < 4; ++i) {
    streams_.emplace_back(engine::Sequence(decoder_, 0), nullptr).n_candidates = 1;
    for (const TokenId token : ids_of(i)) streams_.back().branches.front().push(token);
    pointers_ = {&streams_.back()};
    step();
  }
  EXPECT_EQ(difference(device_->calls(), before).copies, 1);  // of the first one
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(same_bits(streams_[static_cast<size_t>(i)].branches.front().known_logits(), rows_of(backend_, ids_of(i)).back()));
  }
}

TEST(DeviceProfile, HasTheTimeOfEveryStepAndChangesNoLogit) {
  const auto recorder = std::make_shared<Recorder>(false);
  const auto device = std::make_shared<HostDevice>();
  const BackendPtr plain = open_on_host_device(form("plain")), profiled = open_on(device, form("plain"), {.recorder = recorder});
  const std::vector<TokenId> ids = synthetic_ids(5, plain->traits().vocab);
  const std::vector<LogitsRow> expected = rows_of(plain, ids), rows = rows_of(profiled, ids);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_TRUE(same_bits(rows[i], expected[i])) << i;
  int64_t n_calls = 0;
  for (const Recorder::Total& total : recorder->totals()) n_calls += total.name.starts_with("step") ? total.calls : 0;
  EXPECT_EQ(n_calls, device->n_steps());
}

}  // namespace
}  // namespace kvik::testing_support
