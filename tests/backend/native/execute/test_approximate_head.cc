#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "backend/native/execute/cpu/cpu_runner.h"
#include "backend/native/one_node.h"
#include "kernels/cpu/kernels.h"

namespace kvik::native {
namespace {

constexpr int64_t kK = 96, kN = 12005;

// Logits of rows that are given: a product with a bias.
std::shared_ptr<const Plan> head_plan(const std::vector<float>& weights, const std::vector<float>& bias) {
  auto plan = std::make_shared<Plan>();
  plan->embedding = plan->add_value("x", kK);
  const ValueIndex logits = plan->add_value("logits", kN);
  WeightPart part;
  part.value = plan->add_tensor("w", Tensor::of<float>({kK, kN}, weights));
  part.k = kK, part.n = kN;
  plan->weights.push_back({kK, kN, {part}});
  const Input bias_input{Input::Kind::kConstant, plan->add_constant(Tensor::of<float>({kN}, bias)), 0, kN};
  plan->ops.push_back({Matmul{{0}}, {plan->whole(plan->embedding), bias_input}, {logits}, Op::Section::kTail});
  plan->output = plan->whole(logits);
  plan->index();
  return plan;
}

constexpr int64_t kHalf = kN / 2;

// Each column of the second half is one of the first, or differs from it by less than their copies in 8 bits do.
std::vector<float> weights_with_twins() {
  std::vector<float> weights = testing_support::noise(kK * kN, 3);
  const std::vector<float> changes = testing_support::noise(kK * kN, 4);
  for (int64_t k = 0; k < kK; ++k) {
    float* row = weights.data() + k * kN;
    for (int64_t n = 0; n < kHalf; ++n) row[kHalf + n] = row[n] + (n % 4 == 0 ? 0.0f : 3e-4f * changes[static_cast<size_t>(k * kN + n)]);
  }
  return weights;
}

std::vector<float> bias_of_twins() {
  std::vector<float> bias = testing_support::noise(kN, 5);
  std::copy_n(bias.begin(), kHalf, bias.begin() + kHalf);
  return bias;
}

class Runs {
 public:
  Runs(const std::shared_ptr<const Plan>& plan, const cpu::CpuKernels& kernels, int n_threads)
      : pool_(n_threads), runner_({plan, load_weights(*plan, WeightChoice::kF32, pool_, {}), cpu::KvFormat::kF32, &kernels, &pool_}) {}

  std::vector<float> whole(const std::vector<float>& x, const std::vector<int32_t>& wanted) {
    std::vector<float> logits(wanted.size() * kN);
    call(x, wanted, logits.data(), nullptr);
    return logits;
  }
  std::shared_ptr<OutputRows> largest(const std::vector<float>& x, const std::vector<int32_t>& wanted) {
    const std::vector<int32_t> n_candidates(wanted.size(), 1);
    kept_ = runner_.keep_output(n_candidates, kept_);
    if (kept_ != nullptr) call(x, wanted, nullptr, kept_.get());
    return kept_;
  }
  CpuRunner& runner() { return runner_; }

 private:
  // Each row is a sequence of its own, so that threads share them out.
  void call(const std::vector<float>& x, const std::vector<int32_t>& wanted, float* output, OutputRows* kept) {
    std::vector<RunRow> rows(x.size() / kK);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].sequence = static_cast<int32_t>(i);
    const std::vector<RunSequence> sequences(rows.size());
    runner_.prepare(rows);
    RunCall call{rows, sequences, {}, x, wanted, output};
    call.kept = kept;
    runner_.run(call);
  }

  ThreadPool pool_;
  CpuRunner runner_;
  std::shared_ptr<OutputRows> kept_;
};

// All that equal the largest, in the order of the ids.
std::vector<TokenId> largest_of(std::span<const float> logits) {
  std::vector<TokenId> ids;
  const float most = *std::ranges::max_element(logits);
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] == most) ids.push_back(static_cast<TokenId>(i));
  return ids;
}

// How many rows had candidates; those are the largest, and what is read later is the whole product, bit for bit.
int check_rows(OutputRows& output, const std::vector<float>& whole) {
  int n_found = 0;
  for (int row = 0; static_cast<size_t>(row) * kN < whole.size(); ++row) {
    const std::span<const float> expected = std::span(whole).subspan(static_cast<size_t>(row) * kN, kN);
    std::vector<TokenId> ids;
    for (const TokenLogit& candidate : output.candidates(row)) {
      ids.push_back(candidate.id);
      EXPECT_EQ(candidate.logit, expected[static_cast<size_t>(candidate.id)]);
    }
    if (!ids.empty()) {
      EXPECT_EQ(ids, largest_of(expected)) << "row " << row;
      ++n_found;
    }
    EXPECT_EQ(std::memcmp(output.row(row).data(), expected.data(), expected.size_bytes()), 0) << "row " << row;
  }
  return n_found;
}

TEST(ApproximateHead, FindsTheLargestLogitsOfTheWholeProduct) {
  constexpr int kRows = 37;
  const std::shared_ptr<const Plan> plan = head_plan(weights_with_twins(), bias_of_twins());
  const std::vector<float> x = testing_support::noise(kRows * kK, 9);
  std::vector<int32_t> all(kRows), some = {3, 4, 20, 36};
  std::iota(all.begin(), all.end(), 0);
  for (const cpu::CpuKernels* kernels : cpu::available()) {
    for (const int n_threads : {1, 3}) {
      Runs runs(plan, *kernels, n_threads);
      for (const std::vector<int32_t>& wanted : {all, some}) {
        const std::vector<float> whole = runs.whole(x, wanted);
        const std::shared_ptr<OutputRows> output = runs.largest(x, wanted);
        ASSERT_NE(output, nullptr);
        EXPECT_GT(check_rows(*output, whole), static_cast<int>(wanted.size()) / 2) << kernels->name << ", " << n_threads << " threads";
      }
    }
  }
}

TEST(ApproximateHead, FindsALargestLogitAnywhereForEveryRow) {
  constexpr int kRows = 37;
  const std::vector<float> weights = testing_support::noise(kK * kN, 3), x = testing_support::noise(kRows * kK, 9);
  std::vector<int32_t> wanted(kRows);
  std::iota(wanted.begin(), wanted.end(), 0);
  for (const TokenId largest : {0, 31, 32, 127, 128, 6001, 11904, 12003, 12004}) {
    std::vector<float> bias(kN, 0.0f);
    bias[static_cast<size_t>(largest)] = 1000.0f;
    for (const int n_threads : {1, 3}) {
      Runs runs(head_plan(weights, bias), cpu::fastest(), n_threads);
      const std::shared_ptr<OutputRows> output = runs.largest(x, wanted);
      ASSERT_NE(output, nullptr);
      for (int row = 0; row < kRows; ++row) {
        ASSERT_EQ(output->candidates(row).size(), 1u) << largest << ", row " << row;
        EXPECT_EQ(output->candidates(row).front().id, largest) << "row " << row;
      }
    }
  }
}

// Numbers for which no bound of the error holds, or nothing is the largest.
TEST(ApproximateHead, ReadsTheWholeRowIfItsNumbersAreUnusual) {
  const std::shared_ptr<const Plan> plan = head_plan(weights_with_twins(), std::vector<float>(kN, 0.0f));
  std::vector<float> x = testing_support::noise(8 * kK, 9);
  const auto scale = [&](int row, float by) {
    for (int64_t k = 0; k < kK; ++k) x[static_cast<size_t>(row * kK + k)] *= by;
  };
  x[7] = std::numeric_limits<float>::quiet_NaN();
  x[kK + 7] = std::numeric_limits<float>::infinity();
  scale(2, 0.0f), scale(3, 1e-30f), scale(4, 1e-42f), scale(5, 1e38f), scale(6, 1e15f);
  Runs runs(plan, cpu::fastest(), 2);
  const std::vector<int32_t> wanted = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<float> whole = runs.whole(x, wanted);
  const std::shared_ptr<OutputRows> output = runs.largest(x, wanted);
  ASSERT_NE(output, nullptr);
  for (const int row : {0, 1, 2, 3, 4, 5}) EXPECT_TRUE(output->candidates(row).empty()) << row;
  EXPECT_EQ(check_rows(*output, whole), 2);
}

TEST(ApproximateHead, IsOnlyForGreedySearch) {
  const std::shared_ptr<const Plan> plan = head_plan(weights_with_twins(), std::vector<float>(kN, 0.0f));
  Runs runs(plan, cpu::fastest(), 1);
  for (const std::vector<int32_t>& n_candidates : {std::vector<int32_t>{}, {0}, {1, 0}, {51}})
    EXPECT_EQ(runs.runner().keep_output(n_candidates, nullptr), nullptr);
  EXPECT_NE(runs.runner().keep_output(std::vector<int32_t>{1, 4}, nullptr), nullptr);
}

}  // namespace
}  // namespace kvik::native
