// Encoder-decoders on the native backend: sources and rows, however they come together, give the same bits.
#include "laws/native.h"
#include "support/paths.h"

namespace kvik::testing_support {
namespace {

using SourcePtr = std::shared_ptr<const backend::Source>;

Tensor source_ids(std::span<const TokenId> ids) {
  Tensor tensor(DType::kI64, {static_cast<int64_t>(ids.size())});
  std::copy(ids.begin(), ids.end(), tensor.mutable_data<int64_t>().begin());
  return tensor;
}

class TranslatorLaws : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    backend_ = open_native(GetParam(), LoadOptions{});
    const int vocab = backend_->traits().vocab;
    for (const int n : {7, 1, 12}) sources_.push_back(source_ids(synthetic_ids(n, vocab, 5 + n)));
    ids_ = synthetic_ids(9, vocab, 3);
  }

  std::vector<LogitsRow> rows_with(const LoadOptions& options) const {
    const BackendPtr backend = open_native(GetParam(), options);
    return rows_of(backend, ids_, backend->encode(sources_).front());
  }

  BackendPtr backend_;
  std::vector<Tensor> sources_;
  std::vector<TokenId> ids_;
};

TEST_P(TranslatorLaws, SourcesEncodedTogetherEqualThoseEncodedAlone) {
  const std::vector<SourcePtr> together = backend_->encode(sources_);
  for (size_t i = 0; i < sources_.size(); ++i) {
    const SourcePtr alone = backend_->encode(std::span(sources_).subspan(i, 1)).front();
    expect_same_rows(rows_of(backend_, ids_, together[i]), rows_of(backend_, ids_, alone), fmt::format("source {}", i));
  }
}

TEST_P(TranslatorLaws, CachedEqualsUncachedAtEverySplit) {
  const SourcePtr source = backend_->encode(sources_).front();
  const std::vector<LogitsRow> whole = rows_of(backend_, ids_, source);
  for (size_t split = 1; split < ids_.size(); ++split) {
    engine::Sequence sequence(backend_, 0, source);
    ASSERT_EQ(sequence.append(std::span(ids_).first(split)), AppendStatus::kDone);
    EXPECT_TRUE(same_bits(sequence.logits(), whole[split - 1])) << "before the split at " << split;
    engine::Sequence branch = sequence.fork();
    ASSERT_EQ(branch.append(std::span(ids_).subspan(split)), AppendStatus::kDone);
    EXPECT_TRUE(same_bits(branch.logits(), whole.back())) << "after the split at " << split;
    branch.rewind(static_cast<int>(split));
    EXPECT_TRUE(same_bits(branch.logits(), whole[split - 1])) << "rewound to " << split;
  }
}

TEST_P(TranslatorLaws, BatchedSourcesGetTheSameBitsAsAlone) {
  const std::vector<SourcePtr> sources = backend_->encode(sources_);
  std::vector<engine::Sequence> sequences;
  std::vector<engine::Sequence*> pointers;
  std::vector<TokenId> next;
  for (size_t i = 0; i < sources.size(); ++i) {
    sequences.emplace_back(backend_, 0, sources[i]);
    ASSERT_EQ(sequences.back().append(std::span(ids_).first(1 + 2 * i)), AppendStatus::kDone);
    next.push_back(ids_[1 + 2 * i]);
  }
  for (engine::Sequence& sequence : sequences) pointers.push_back(&sequence);
  ASSERT_EQ(engine::Sequence::append_each(pointers, next), AppendStatus::kDone);
  for (size_t i = 0; i < sources.size(); ++i)
    EXPECT_TRUE(same_bits(sequences[i].logits(), rows_of(backend_, ids_, sources[i])[1 + 2 * i])) << "source " << i;
}

// With so many sources each thread encodes some of them and runs all operations on some of the rows.
TEST_P(TranslatorLaws, ManySourcesOnSeveralThreadsAreEachAlone) {
  constexpr size_t kSequences = 30;
  const BackendPtr threaded = open_native(GetParam(), {.threads = 3});
  std::vector<Tensor> many;
  for (size_t i = 0; i < kSequences; ++i) many.push_back(sources_[i % sources_.size()]);
  const std::vector<SourcePtr> together = threaded->encode(many), sources = backend_->encode(sources_);
  std::vector<engine::Sequence> sequences;
  std::vector<engine::Sequence*> pointers;
  for (size_t i = 0; i < kSequences; ++i) {
    sequences.emplace_back(threaded, 0, together[i]);
    ASSERT_EQ(sequences.back().append(std::span(ids_).first(1 + i % 3)), AppendStatus::kDone);
  }
  std::vector<TokenId> next;
  for (size_t i = 0; i < kSequences; ++i) {
    pointers.push_back(&sequences[i]);
    next.push_back(ids_[1 + i % 3]);
  }
  ASSERT_EQ(engine::Sequence::append_each(pointers, next), AppendStatus::kDone);
  for (size_t i = 0; i < kSequences; ++i) {
    EXPECT_TRUE(same_bits(sequences[i].logits(), rows_of(backend_, ids_, sources[i % sources_.size()])[1 + i % 3])) << "sequence " << i;
  }
}

TEST_P(TranslatorLaws, ThreadsInstructionSetsAndLoadsGiveTheSame) {
  const std::vector<LogitsRow> one = rows_with({.isa = "scalar", .threads = 1});
  for (const int threads : {1, 2, 5}) expect_same_rows(rows_with({.threads = threads}), one, fmt::format("{} threads", threads));
  for (const cpu::CpuKernels* kernels : cpu::available()) expect_same_rows(rows_with({.isa = kernels->name}), one, kernels->name);
}

INSTANTIATE_TEST_SUITE_P(Every, TranslatorLaws,
                         testing::Values(source_root() / "models" / "en-zh", fixtures() / "zoo" / "marian",
                                         fixtures() / "forms" / "translator-pair"),
                         [](const auto& model) { return test_name_of(model.param.filename().string()); });

}  // namespace
}  // namespace kvik::testing_support
