// On a device too, a row's logits do not depend on how they were computed: equal bits.
#include <gmock/gmock.h>

#include "laws/on_device.h"
#include "support/paths.h"
#include "verify/decoder_laws.h"

namespace kvik::testing_support {
namespace {

using backend::NativeOptions;

struct DeviceModel {
  std::string name;
  std::filesystem::path folder;
};

std::vector<DeviceModel> device_models() {
  std::vector<DeviceModel> models;
  for (const KnownDecoder& decoder : known_decoders()) {
    if (decoder.folder.string().starts_with(fixtures().string())) models.push_back({decoder.name, decoder.folder});
  }
  return models;
}

class DeviceLaws : public testing::TestWithParam<DeviceModel> {
 protected:
  void SetUp() override {
    device_ = std::make_shared<HostDevice>();
    backend_ = try_on(device_, GetParam().folder);
    if (backend_ == nullptr) GTEST_SKIP() << "not compiled natively";
    const int limit = backend_->traits().max_positions;
    ids_ = synthetic_ids(limit > 0 ? std::min(limit - 1, 7) : 7, backend_->traits().vocab);
  }

  std::shared_ptr<HostDevice> device_;
  BackendPtr backend_;
  std::vector<TokenId> ids_;
};

// The definition of a device's arithmetic is slow: larger fixtures are only compared with the CPU.
TEST_P(DeviceLaws, CachedUncachedSplitForkedRewoundSavedAndBatchedAreEqual) {
  if (!GetParam().folder.string().starts_with((fixtures() / "forms").string())) GTEST_SKIP() << "too large";
  laws::DecoderLaws options;
  options.prompt = ids_;
  options.tolerance = 0;
  for (const Law& law : laws::verify_decoder(backend_, options))
    EXPECT_TRUE(law.holds && law.exact) << GetParam().name << ": " << law.name << ": " << law.detail;
}

TEST_P(DeviceLaws, LogitsAreThoseOfTheCpuWithinRounding) {
  EXPECT_GT(device_->n_steps(), 0);
  expect_near(rows_of(backend_, ids_), rows_of(open_native(GetParam().folder, NativeOptions{}), ids_), 0.01, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceLaws, testing::ValuesIn(device_models()), NameOfParam());

// Logits after each token: the pieces have these many rows, the last of them again and again.
std::vector<LogitsRow> rows_in_pieces(const BackendPtr& backend, std::span<const TokenId> ids, std::vector<size_t> pieces) {
  engine::Sequence sequence(backend, 0);
  std::vector<LogitsRow> rows;
  for (size_t done = 0, i = 0; done < ids.size(); i = std::min(i + 1, pieces.size() - 1)) {
    const size_t n = std::min(pieces[i], ids.size() - done);
    rows_of_piece(sequence, ids.subspan(done, n), rows);
    done += n;
  }
  return rows;
}

std::filesystem::path long_model() { return fixtures() / "zoo" / "small-merged"; }  // of 256 positions

// Longer than a span of 128 positions and than several pages. Parts of attention are of one span in small calls, and of eight in large
// ones.
TEST(DeviceCalls, OfAnySizeGiveEqualBitsInALongSequence) {
  const BackendPtr backend = open_on_host_device(long_model());
  const std::vector<TokenId> ids = synthetic_ids(136, backend->traits().vocab);
  const std::vector<LogitsRow> whole = rows_in_pieces(backend, ids, {ids.size()});
  expect_same_rows(rows_in_pieces(backend, ids, {126, 1}), whole, "prompt and single steps");
  expect_same_rows(rows_in_pieces(backend, ids, {50, 3, 66, 17}), whole, "pieces");
}

TEST(DeviceCalls, RecordedAndLaunchedGiveEqualBits) {
  const std::vector<TokenId> ids = synthetic_ids(20, open_on_host_device(form("plain"))->traits().vocab);
  for (const char* name : {"plain", "recurrent", "sparse-layers"}) {
    const std::vector<LogitsRow> recorded = rows_in_pieces(open_on_host_device(form(name)), ids, {5, 1});
    const std::vector<LogitsRow> launched = rows_in_pieces(open_on_host_device(form(name), {.records_steps = false}), ids, {5, 1});
    expect_same_rows(recorded, launched, name);
  }
}

TEST(DeviceCalls, PagesOfSeveralPanelsGiveEqualBits) {
  const std::vector<TokenId> ids = synthetic_ids(40, open_on_host_device(long_model())->traits().vocab);
  expect_same_rows(rows_in_pieces(open_on_host_device(long_model(), {.page_panels = 3}), ids, {30, 1}),
                   rows_in_pieces(open_on_host_device(long_model()), ids, {40}), "pages of 96 positions");
}

// More sequences than a page table has slots at first; the sequences come and go.
TEST(DeviceCalls, WithManySequencesGiveEachItsOwnBits) {
  const BackendPtr backend = open_on_host_device(form("plain"));
  const std::vector<TokenId> ids = synthetic_ids(3, backend->traits().vocab);
  const std::vector<LogitsRow> alone = rows_of(backend, ids);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<backend::Cache>> caches;
    std::vector<backend::Cache*> used;
    for (int i = 0; i < 70; ++i) used.push_back(caches.emplace_back(backend->new_cache()).get());
    for (int position = 0; position < 3; ++position) {
      std::vector<backend::Row> rows;
      for (int i = 0; i < 70; ++i) rows.push_back({ids[static_cast<size_t>(position)], position, i, i % 3 != 0});
      backend::Logits logits;
      ASSERT_EQ(backend->run(rows, used, logits), backend::RunStatus::kDone);
      for (int i = 0; i < logits.n_rows(); ++i) EXPECT_TRUE(same_bits(logits.row(i), alone[static_cast<size_t>(position)])) << i;
    }
  }
}

// A row is read from the device when it is asked for; what is largest is known before.
TEST(DeviceLogits, ThatStayOnTheDeviceAreThoseThatAreRead) {
  const BackendPtr backend = open_on_host_device(form("plain"));
  const std::vector<TokenId> ids = synthetic_ids(9, backend->traits().vocab);
  const std::unique_ptr<backend::Cache> cache = backend->new_cache();
  backend::Cache* const caches[] = {cache.get()};
  std::vector<backend::Row> rows;
  for (int i = 0; i < 9; ++i)
    rows.push_back({.token = ids[static_cast<size_t>(i)], .position = i, .wants_logits = i % 2 == 0, .n_candidates = i % 3});
  backend::Logits logits;
  ASSERT_EQ(backend->run(rows, caches, logits), backend::RunStatus::kDone);
  std::vector<std::vector<TokenLogit>> candidates;
  for (int i = 0; i < logits.n_rows(); ++i) candidates.emplace_back(logits.candidates(i).begin(), logits.candidates(i).end());
  backend::Logits later;  // another call must not change what is still to be read
  const std::unique_ptr<backend::Cache> other = backend->new_cache();
  backend::Cache* const others[] = {other.get()};
  const backend::Row row{ids[3], 0, 0, true};
  ASSERT_EQ(backend->run({&row, 1}, others, later), backend::RunStatus::kDone);
  const std::vector<LogitsRow> all = rows_of(backend, ids);
  for (int i = 0; i < logits.n_rows(); ++i) {
    EXPECT_TRUE(same_bits(logits.row(i), all[static_cast<size_t>(2 * i)])) << i;
    LogitsRow sorted = all[static_cast<size_t>(2 * i)];
    std::ranges::sort(sorted, std::greater());
    ASSERT_GE(candidates[static_cast<size_t>(i)].size(), std::min<size_t>(64, sorted.size())) << i;
    for (size_t j = 0; j < candidates[static_cast<size_t>(i)].size(); ++j) {
      const TokenLogit& candidate = candidates[static_cast<size_t>(i)][j];
      EXPECT_EQ(candidate.logit, sorted[j]) << i;
      EXPECT_EQ(candidate.logit, logits.row(i)[static_cast<size_t>(candidate.id)]) << i;
    }
  }
}

struct DeviceFormat {
  native::WeightChoice weights;
  cpu::KvFormat kv;
};
class DeviceFormats : public testing::TestWithParam<DeviceFormat> {};

// The CPU rounds rows of q8 and q4 products to int8, a device to f16.
TEST_P(DeviceFormats, KeepTheLawsAndTheLogits) {
  const NativeOptions options{.weights = GetParam().weights, .kv = GetParam().kv};
  const BackendPtr backend = open_on_host_device(form("plain"), options);
  const std::vector<TokenId> ids = synthetic_ids(12, backend->traits().vocab);
  const std::vector<LogitsRow> whole = rows_of(backend, ids);
  expect_same_rows(rows_in_pieces(backend, ids, {4, 1}), whole, "single steps");
  const bool quantized = GetParam().weights == native::WeightChoice::kQ8 || GetParam().weights == native::WeightChoice::kQ4;
  expect_near(whole, rows_of(open_native(form("plain"), options), ids), quantized ? 0.05 : 0.01, "the CPU");
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceFormats,
                         testing::Values(DeviceFormat{native::WeightChoice::kF32, cpu::KvFormat::kF16},
                                         DeviceFormat{native::WeightChoice::kF16, cpu::KvFormat::kF16},
                                         DeviceFormat{native::WeightChoice::kQ8, cpu::KvFormat::kF32},
                                         DeviceFormat{native::WeightChoice::kQ8, cpu::KvFormat::kQ8},
                                         DeviceFormat{native::WeightChoice::kQ4, cpu::KvFormat::kF16}));

size_t best_of(const LogitsRow& row) { return static_cast<size_t>(std::ranges::max_element(row) - row.begin()); }

// Two arithmetics may choose different tokens only where the best ones are closer than logits may differ.
TEST(DeviceText, IsTheCpusWhereTheBestTokensAreNotNearlyEqual) {
  const std::filesystem::path fable = source_root() / "models" / "fable";
  for (const native::WeightChoice weights :
       {native::WeightChoice::kF32, native::WeightChoice::kF16, native::WeightChoice::kQ8, native::WeightChoice::kQ4}) {
    const BackendPtr cpu = open_native(fable, {.weights = weights}), device = open_on_host_device(fable, {.weights = weights});
    std::vector<TokenId> ids = {2355, 680, 259, 515};  // Once upon a time
    for (int i = 0; i < 24; ++i) ids.push_back(static_cast<TokenId>(best_of(rows_of(cpu, ids).back())));
    const std::vector<LogitsRow> here = rows_of(device, ids), there = rows_of(cpu, ids);
    const bool quantized = weights == native::WeightChoice::kQ8 || weights == native::WeightChoice::kQ4;
    expect_near(here, there, quantized ? 0.05 : 0.01, "logits");
    for (size_t i = 3; i < ids.size(); ++i) {
      const size_t chosen = best_of(here[i]), expected = best_of(there[i]);
      const auto [low, high] = std::ranges::minmax(there[i]);
      EXPECT_LE(there[i][expected] - there[i][chosen], (quantized ? 0.05f : 0.01f) * (high - low))
          << static_cast<int>(weights) << ", " << i;
    }
  }
}

TEST(DeviceTraits, NameTheDeviceAndItsArithmetic) {
  const auto device = std::make_shared<HostDevice>();
  const BackendPtr here = open_on(device, form("plain")), cpu = open_native(form("plain"), NativeOptions{});
  EXPECT_EQ(here->traits().device, "cuda");
  EXPECT_EQ(cpu->traits().device, "cpu");
  EXPECT_THAT(here->traits().cache_form, testing::HasSubstr(device->facts().arithmetic));
  EXPECT_NE(here->traits().cache_form, cpu->traits().cache_form);
}

class DeviceTranslators : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(DeviceTranslators, GiveEqualBitsHoweverSourcesAndRowsComeTogether) {
  const BackendPtr backend = open_on_host_device(GetParam()), cpu = open_native(GetParam(), NativeOptions{});
  const int vocab = backend->traits().vocab;
  const std::vector<TokenId> ids = synthetic_ids(5, vocab, 3);
  std::vector<Tensor> sources;
  for (const int n : {7, 1, 12}) {
    const std::vector<TokenId> source = synthetic_ids(n, vocab, 5 + n);
    sources.push_back(Tensor::of({n}, std::vector<int64_t>(source.begin(), source.end())));
  }
  const auto together = backend->encode(sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto alone = backend->encode(std::span(sources).subspan(i, 1)).front();
    const std::vector<LogitsRow> whole = rows_of(backend, ids, together[i]);
    expect_same_rows(whole, rows_of(backend, ids, alone), fmt::format("source {}", i));
    engine::Sequence sequence(backend, 0, alone);
    std::vector<LogitsRow> single;
    for (size_t t = 0; t < ids.size(); ++t) rows_of_piece(sequence, std::span(ids).subspan(t, 1), single);
    expect_same_rows(whole, single, fmt::format("source {}, single steps", i));
    expect_near(whole, rows_of(cpu, ids, cpu->encode(std::span(sources).subspan(i, 1)).front()), 0.01, "the CPU");
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceTranslators,
                         testing::Values(fixtures() / "zoo" / "marian", form("translator-pair"), form("recurrent-translator")),
                         [](const auto& model) { return test_name_of(model.param.filename().string()); });

}  // namespace
}  // namespace kvik::testing_support
