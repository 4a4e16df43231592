// The unfused plan is the proof of the fused one: for every model at hand, with all fusions, without any, and with each left out.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/native/compile.h"
#include "backend/native/fuse.h"
#include "backend/native/run.h"
#include "backend/native/stages.h"
#include "kvik/error.h"
#include "support/programs.h"

namespace kvik::native {
namespace {

using kvik::testing_support::ModelFolder;

constexpr int64_t kPositions = 11, kSourcePositions = 7;

float noise(int64_t seed) { return static_cast<float>(std::sin(static_cast<double>(seed) * 12.9898) * 0.7); }

// Memory of one sequence.
struct Pages {
  explicit Pages(int64_t page_bytes) : memory(static_cast<size_t>(page_bytes)), list{memory.data()} {
    std::fill_n(memory.data(), memory.size_bytes(), std::byte{0});
  }
  AlignedBuffer memory;
  std::vector<std::byte*> list;
};

// The outputs of some rows: a prompt in one call, then row by row.
std::vector<float> outputs(const std::shared_ptr<const Plan>& plan, Constants& constants, ThreadPool& pool) {
  static_assert(kPositions <= cpu::kPagePositions);
  Runner runner({plan, load_weights(*plan, constants, WeightChoice::kAsStored, pool, {}), cpu::KvFormat::kF32, &cpu::fastest(), &pool});
  Pages pages(runner.layouts().page_bytes), source_pages(runner.layouts().source_page_bytes);
  std::vector<std::vector<float>> given;
  for (const Plan::SourceValue& source : plan->source_inputs) {
    given.emplace_back(static_cast<size_t>(kSourcePositions * plan->value(source.value).size));
    for (size_t i = 0; i < given.back().size(); ++i) given.back()[i] = noise(static_cast<int64_t>(i));
  }
  const std::vector<std::span<const float>> inputs(given.begin(), given.end());
  RunSequence source;
  source.source_pages = source_pages.list.data();
  source.n_source = kSourcePositions;
  std::vector<RunRow> positions;
  for (int64_t i = 0; i < kSourcePositions; ++i) positions.push_back({i, 0});
  if (!inputs.empty()) runner.run_source(positions, {&source, 1}, inputs);

  std::vector<std::vector<std::byte>> memories;
  std::vector<std::byte*> registers;
  for (const Plan::PlanRegister& r : plan->registers) memories.emplace_back(static_cast<size_t>(r.size * 8));
  for (std::vector<std::byte>& memory : memories) registers.push_back(memory.data());
  const auto size = static_cast<size_t>(runner.output_size());
  const size_t width = plan->embedding == kNoIndex ? 0 : static_cast<size_t>(plan->value(plan->embedding).size);
  std::vector<float> all(size * kPositions);
  const bool at_once = std::any_of(plan->attends.begin(), plan->attends.end(), [](const Attend& a) { return !a.causal && !a.from_source; });
  for (int64_t first = 0, n = at_once ? kPositions : 6; first < kPositions; first += n, n = 1) {
    std::vector<RunRow> rows;
    std::vector<int64_t> tokens;
    std::vector<float> embeddings;
    std::vector<int32_t> wanted;
    for (int64_t i = 0; i < n; ++i) {
      rows.push_back({first + i, 0});
      tokens.push_back((first + i) * 5 % 23 + 3);
      wanted.push_back(static_cast<int32_t>(i));
      for (size_t e = 0; e < width; ++e) embeddings.push_back(noise((first + i) * 977 + static_cast<int64_t>(e)));
    }
    const RunSequence sequence{pages.list.data(), first + n, source_pages.list.data(), kSourcePositions, registers.data()};
    runner.run({rows, {&sequence, 1}, tokens, embeddings, wanted, all.data() + static_cast<size_t>(first) * size});
  }
  return all;
}

double difference(const std::vector<float>& expected, const std::vector<float>& found) {
  double largest = 1e-6, worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    worst = std::max(worst, std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i])));
  }
  return worst / largest;
}

// A row whose quantisation meets a tie may come out one step apart.
double allowed(const Plan& fused) {
  return std::any_of(fused.weights.begin(), fused.weights.end(),
                     [](const PlanWeight& weight) { return weight.activations == Activations::kBytes; })
             ? 2e-2
             : 1e-4;
}

void expect_same_without(const Program& program) {
  ThreadPool pool(1);
  Constants constants(*program.flat);
  std::vector<std::string> all;
  for (const FusePass& pass : fuse_passes()) all.emplace_back(pass.name);
  const std::shared_ptr<const Plan> fused = make_plan(program, {});
  const std::vector<float> expected = outputs(make_plan(program, all), constants, pool);
  EXPECT_LT(difference(expected, outputs(fused, constants, pool)), allowed(*fused)) << "with all fusions";
  for (const std::string& name : all) {
    if (fused->fused.at(name) == 0) continue;
    const std::vector<std::string> without = {name};
    EXPECT_LT(difference(expected, outputs(make_plan(program, without), constants, pool)), allowed(*fused)) << "without " << name;
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
  add([&] { return compile_decoder(signature); });
  add([&] { return compile_encoder(signature); });
  return programs;
}

class FusedModels : public testing::TestWithParam<ModelFolder> {};

TEST_P(FusedModels, GiveWhatTheyGiveWithoutFusions) {
  std::optional<analysis::Signature> signature;
  try {
    signature = analysis::analyse(GetParam().path);
  } catch (const Error& e) { GTEST_SKIP() << e.what(); }
  const std::vector<Program> programs = compiled_programs(*signature);
  if (programs.empty()) GTEST_SKIP() << "no program over rows";
  for (const Program& program : programs) expect_same_without(program);
}

std::string test_name(const testing::TestParamInfo<ModelFolder>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, FusedModels, testing::ValuesIn(kvik::testing_support::model_folders()), test_name);

}  // namespace
}  // namespace kvik::native
