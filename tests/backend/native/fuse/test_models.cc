// The unfused plan is the proof of the fused one: for every test model, with all fusions, without any, and with each left out.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/native/compile.h"
#include "backend/native/fuse/fuse.h"
#include "backend/native/stages.h"
#include "kvik/error.h"
#include "plan_runner.h"
#include "support/paths.h"
#include "support/programs.h"

namespace kvik::native {
namespace {

using kvik::testing_support::ModelFolder;
using testing_support::outputs;

double difference(const std::vector<float>& expected, const std::vector<float>& found) {
  double largest = 1e-6, worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    worst = std::max(worst, std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i])));
  }
  return worst / largest;
}

// A row whose quantization meets a tie may come out one step apart.
double allowed(const Plan& fused) {
  return std::any_of(fused.weights.begin(), fused.weights.end(),
                     [](const PlanWeight& weight) { return weight.activations == Activations::kBytes; })
             ? 2e-2
             : 1e-4;
}

void expect_same_without(const Program& program) {
  std::vector<std::string> all;
  for (const FusePass& pass : fuse_passes()) all.emplace_back(pass.name);
  const std::shared_ptr<const Plan> fused = make_plan(program, {});
  const std::vector<float> expected = outputs(make_plan(program, all));
  EXPECT_LT(difference(expected, outputs(fused)), allowed(*fused)) << "with all fusions";
  for (const std::string& name : all) {
    if (fused->fused.at(name) == 0) continue;
    const std::vector<std::string> without = {name};
    EXPECT_LT(difference(expected, outputs(make_plan(program, without))), allowed(*fused)) << "without " << name;
  }
}

// Of the folder's decoder and encoder, where they are programs over rows; the signature lives as long.
std::vector<Program> compiled_programs(const analysis::Signature& signature) {
  std::vector<Program> programs;
  const auto add = [&](auto compile) {
    try {
      programs.push_back(compile());
    } catch (const Error&) { return; }
  };
  add([&] { return take(compile_decoder(signature)); });
  add([&] { return take(compile_encoder(signature)); });
  return programs;
}

class FusedModels : public testing::TestWithParam<ModelFolder> {};

TEST_P(FusedModels, GiveTheSameResultsWithoutFusions) {
  std::optional<analysis::Signature> signature;
  try {
    signature = analysis::analyze(GetParam().path);
  } catch (const Error& e) {
    EXPECT_FALSE(kvik::testing_support::is_expected_program(GetParam().name)) << e.what();
    return;
  }
  const std::vector<Program> programs = compiled_programs(*signature);
  EXPECT_TRUE(!programs.empty() || !kvik::testing_support::is_expected_program(GetParam().name)) << "compiles to nothing";
  for (const Program& program : programs) expect_same_without(program);
}

INSTANTIATE_TEST_SUITE_P(All, FusedModels, testing::ValuesIn(kvik::testing_support::model_folders()), kvik::testing_support::NameOfParam());

// A static quantizer rounds keys and values after their heads are repeated.
TEST(FuseLateRepeat, RoundedKeysOfSharedHeadsAreKeptOnce) {
  const analysis::Signature signature = analysis::analyze(kvik::testing_support::fixtures() / "forms" / "quantized-attention-int8");
  const Program program = take(compile_decoder(signature));
  const std::vector<std::string> without = {"late_repeat"};
  EXPECT_EQ(make_plan(program, without)->attends.at(0).n_kv_heads, 4);
  EXPECT_EQ(make_plan(program, {})->attends.at(0).n_kv_heads, 2);
}

}  // namespace
}  // namespace kvik::native
