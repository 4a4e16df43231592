// On the native backend a row's logits do not depend on how they were computed: equal bits.
#include <cmath>
#include <fmt/ranges.h>
#include <random>

#include "backend/native/fuse/fuse.h"
#include "laws/native.h"
#include "support/paths.h"
#include "verify/decoder_laws.h"

namespace kvik::testing_support {
namespace {

struct LawModel {
  std::string name;
  std::filesystem::path folder;
};

// The embedded decoder and every fixture that compiles for the native backend.
std::vector<LawModel> law_models() {
  std::vector<LawModel> models = {{"fable", source_root() / "models" / "fable"}};
  for (const KnownDecoder& decoder : known_decoders()) {
    if (decoder.folder.string().starts_with(fixtures().string()) && try_native(decoder.folder) != nullptr)
      models.push_back({decoder.name, decoder.folder});
  }
  return models;
}

class DecoderLaws : public testing::TestWithParam<LawModel> {
 protected:
  void SetUp() override {
    backend_ = open_native(GetParam().folder, LoadOptions{});
    const int limit = backend_->traits().max_positions;
    ids_ = synthetic_ids(limit > 0 ? std::min(limit - 1, 19) : 19, backend_->traits().vocab);
  }

  // The logits after each token: a prompt of 13 tokens, then single steps, which use other kernels.
  std::vector<LogitsRow> rows_from(const BackendPtr& backend) const {
    engine::Sequence sequence(backend, 0);
    std::vector<LogitsRow> rows;
    for (size_t done = 0; done < ids_.size();) {
      const size_t n = done == 0 ? std::min<size_t>(13, ids_.size()) : 1;
      rows_of_piece(sequence, std::span(ids_).subspan(done, n), rows);
      done += n;
    }
    return rows;
  }

  // The same prompt with other options: another instruction set, other threads.
  std::vector<LogitsRow> rows_with(const LoadOptions& options) const { return rows_from(open_native(GetParam().folder, options)); }

  BackendPtr backend_;
  std::vector<TokenId> ids_;
};

void expect_all_laws(const BackendPtr& backend, std::span<const TokenId> ids, const std::string& what) {
  laws::DecoderLaws options;
  options.prompt.assign(ids.begin(), ids.end());
  options.tolerance = 0;
  for (const Law& law : laws::verify_decoder(backend, options)) {
    EXPECT_TRUE(law.holds && law.exact) << what << ": " << law.name << ": " << law.detail;
    EXPECT_GT(law.cases, 0) << law.name;
  }
}

TEST_P(DecoderLaws, CachedUncachedSplitForkedRewoundResetAndBatchedAreEqual) {
  EXPECT_TRUE(backend_->traits().exact);
  expect_all_laws(backend_, ids_, GetParam().name);
}

// Prompts are longer than a page of 32 positions. Some sequences of a call have no rows, some rows want no logits.
TEST_P(DecoderLaws, RowsInAnyGroupingEqualRowsAlone) {
  if (backend_->traits().switch_after > 0) return;  // a row's logits depend on the length after the call; verify_decoder compares last rows
  const int vocab = backend_->traits().vocab, limit = backend_->traits().max_positions;
  const int longest = limit > 0 ? std::min(limit - 1, 37) : 37;
  constexpr int kSequences = 5;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::vector<LogitsRow>> alone;
  for (int i = 0; i < kSequences; ++i) {
    prompts.push_back(synthetic_ids(longest - i, vocab, 7 + 13 * i));
    alone.push_back(rows_of(backend_, prompts.back()));
  }
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::unique_ptr<backend::Cache>> caches;
    for (int i = 0; i < kSequences; ++i) caches.push_back(backend_->new_cache());
    for (size_t done = 0; done < prompts[0].size();) {
      std::vector<backend::Row> rows;
      std::vector<backend::Cache*> used;
      std::vector<const LogitsRow*> expected;
      for (int i = 0; i < kSequences; ++i) {
        const auto& prompt = prompts[static_cast<size_t>(i)];
        const int length = caches[static_cast<size_t>(i)]->length();
        const int left = static_cast<int>(prompt.size()) - length;
        const int take = left == 0 ? 0 : std::min<int>(left, static_cast<int>(random() % 5));
        for (int p = length; p < length + take; ++p) {
          const bool wants = random() % 3 != 0;
          rows.push_back({prompt[static_cast<size_t>(p)], p, static_cast<int>(used.size()), wants});
          if (wants) expected.push_back(&alone[static_cast<size_t>(i)][static_cast<size_t>(p)]);
        }
        used.push_back(caches[static_cast<size_t>(i)].get());
      }
      if (rows.empty()) continue;
      backend::Logits logits;
      ASSERT_EQ(backend_->run(rows, used, logits), backend::RunStatus::kDone);
      ASSERT_EQ(static_cast<size_t>(logits.n_rows()), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(same_bits(logits.row(static_cast<int>(i)), *expected[i])) << GetParam().name << ", seed " << seed;
      done = static_cast<size_t>(caches[0]->length());
    }
  }
}

// With so many sequences each thread runs all operations on some of the rows.
TEST_P(DecoderLaws, ManySequencesOnSeveralThreadsAreEachAlone) {
  if (backend_->traits().switch_after > 0) return;
  constexpr int kSequences = 24;
  const BackendPtr threaded = open_native(GetParam().folder, {.threads = 3});
  const int vocab = backend_->traits().vocab, limit = backend_->traits().max_positions;
  const int longest = limit > 0 ? std::min(limit - 2, 6) : 6;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::vector<LogitsRow>> alone;
  std::vector<std::unique_ptr<backend::Cache>> caches;
  std::vector<backend::Cache*> used;
  std::vector<backend::Row> first, then;
  for (int i = 0; i < kSequences; ++i) {
    prompts.push_back(synthetic_ids(2 + i % longest, vocab, 5 + 11 * i));
    alone.push_back(rows_of(backend_, prompts.back()));
    caches.push_back(threaded->new_cache());
    used.push_back(caches.back().get());
    const auto last = static_cast<int>(prompts.back().size()) - 1;
    for (int p = 0; p < last; ++p) first.push_back({prompts.back()[static_cast<size_t>(p)], p, i, (p + i) % 3 == 0});
    then.push_back({prompts.back()[static_cast<size_t>(last)], last, i, true});
  }
  for (const std::vector<backend::Row>& rows : {first, then}) {
    backend::Logits logits;
    ASSERT_EQ(threaded->run(rows, used, logits), backend::RunStatus::kDone);
    int n_logits = 0;
    for (const backend::Row& row : rows) {
      if (!row.wants_logits) continue;
      EXPECT_TRUE(same_bits(logits.row(n_logits++), alone[static_cast<size_t>(row.sequence)][static_cast<size_t>(row.position)]))
          << GetParam().name << ", sequence " << row.sequence << ", position " << row.position;
    }
  }
}

TEST_P(DecoderLaws, OneTwoAndFiveThreadsAreEqual) {
  const std::vector<LogitsRow> one = rows_with({.threads = 1});
  for (const int threads : {2, 5}) expect_same_rows(rows_with({.threads = threads}), one, fmt::format("{} threads", threads));
}

TEST_P(DecoderLaws, InstructionSetsAreEqual) {
  const std::vector<LogitsRow> plain = rows_with({.isa = "scalar"});
  for (const cpu::CpuKernels* kernels : cpu::available()) expect_same_rows(rows_with({.isa = kernels->name}), plain, kernels->name);
}

TEST_P(DecoderLaws, ASecondLoadEqualsTheFirst) { expect_same_rows(rows_with({}), rows_from(backend_), "a second load"); }

double spread_of(const LogitsRow& row) {
  double sum = 0, squares = 0;
  for (const float value : row) sum += value, squares += static_cast<double>(value) * value;
  const auto n = static_cast<double>(row.size());
  return std::sqrt(std::max(1e-30, squares / n - (sum / n) * (sum / n)));
}

TEST_P(DecoderLaws, FusedEqualsUnfusedWithinRounding) {
  const std::vector<LogitsRow> fused = rows_from(backend_);
  std::vector<std::vector<std::string>> left_out(1);
  for (const native::FusePass& pass : native::fuse_passes()) {
    left_out.front().emplace_back(pass.name);
    if (GetParam().name == "fable") left_out.push_back({std::string(pass.name)});
  }
  for (const std::vector<std::string>& names : left_out) {
    LoadOptions options;
    options.no_fuse = names;
    const std::vector<LogitsRow> unfused = rows_with(options);
    ASSERT_EQ(unfused.size(), fused.size());
    for (size_t r = 0; r < fused.size(); ++r) {
      double difference = 0;
      for (size_t i = 0; i < fused[r].size(); ++i)
        difference = std::max(difference, std::fabs(static_cast<double>(fused[r][i]) - unfused[r][i]));
      EXPECT_LE(difference / spread_of(fused[r]), 1e-4) << "row " << r << " without " << fmt::format("{}", fmt::join(names, ", "));
    }
  }
}

std::string name_of(const testing::TestParamInfo<LawModel>& info) {
  return test_name_of(fmt::format("{}_{}", info.index, info.param.name));
}

INSTANTIATE_TEST_SUITE_P(Every, DecoderLaws, testing::ValuesIn(law_models()), name_of);

// Quantized weights and caches change the results, but every way of computing them still gives the same bits.
struct Storage {
  Weights weights = Weights::kAuto;
  KvStorage kv = KvStorage::kF32;
};

class StorageLaws : public testing::TestWithParam<Storage> {};

TEST_P(StorageLaws, HoldForEveryWeightsAndCacheFormat) {
  const std::filesystem::path folder = source_root() / "models" / "fable";
  const LoadOptions options = {.weights = GetParam().weights, .kv = GetParam().kv, .threads = 2};
  const BackendPtr backend = open_native(folder, options);
  const std::vector<TokenId> ids = synthetic_ids(14, backend->traits().vocab);
  expect_all_laws(backend, ids, "fable");
  const std::vector<LogitsRow> rows = rows_of(backend, ids);
  for (const cpu::CpuKernels* kernels : cpu::available()) {
    LoadOptions other = options;
    other.isa = kernels->name;
    other.threads = 1;
    expect_same_rows(rows_of(open_native(folder, other), ids), rows, kernels->name);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, StorageLaws,
                         testing::Values(Storage{Weights::kF32}, Storage{Weights::kF16}, Storage{Weights::kQ8}, Storage{Weights::kQ4},
                                         Storage{Weights::kF32, KvStorage::kF16}, Storage{Weights::kQ8, KvStorage::kQ8}),
                         [](const auto& format) { return fmt::format("Format{}", format.index); });

}  // namespace
}  // namespace kvik::testing_support
