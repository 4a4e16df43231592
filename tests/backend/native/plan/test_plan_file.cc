// A saved plan is the compiled plan: the same data, and the same bits of every output. A file that is anything else is refused.
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <random>

#include "backend/native/fuse/plan_runner.h"
#include "backend/native/fuse/support.h"
#include "backend/native/plan/check_plan.h"
#include "backend/native/plan/plan_file.h"
#include "backend/native/saved_stages.h"
#include "kvik/error.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/programs.h"

namespace kvik::native {
namespace {

using kvik::testing_support::fixtures;
using kvik::testing_support::ModelFolder;
using kvik::testing_support::TemporaryFolder;

std::vector<std::shared_ptr<const Plan>> plans_of(const Stages& stages) {
  std::vector<std::shared_ptr<const Plan>> plans;
  for (const std::shared_ptr<const Plan>& plan : {stages.decoder, stages.encoder, stages.embedding}) {
    if (plan != nullptr) plans.push_back(plan);
  }
  return plans;
}

class SavedPlansOf : public testing::TestWithParam<ModelFolder> {};

TEST_P(SavedPlansOf, AreTheCompiledPlans) {
  std::optional<analysis::Signature> signature;
  try {
    signature = analysis::analyze(GetParam().path);
  } catch (const Error&) { return; }  // tests/fixtures/native-programs.txt has its reason
  const Outcome<Stages> compiled = compile_stages(*signature, {});
  if (!compiled) {
    EXPECT_TRUE(signature->first_step() == nullptr || !kvik::testing_support::is_expected_program(GetParam().name)) << compiled.sentence();
    return;
  }
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "plan";
  save_stages(path, *signature, {}, *compiled);
  const Stages loaded = load_stages(path, *signature, {});
  const auto before = plans_of(*compiled), after = plans_of(loaded);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    check_plan(*before[i]);
    EXPECT_EQ(before[i]->ops.size(), after[i]->ops.size());
    EXPECT_EQ(before[i]->notes, after[i]->notes);
    EXPECT_EQ(testing_support::outputs(before[i]), testing_support::outputs(after[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SavedPlansOf, testing::ValuesIn(kvik::testing_support::model_folders()),
                         kvik::testing_support::NameOfParam());

class PlanFile : public testing::Test {
 protected:
  PlanFile() : signature_(analysis::analyze(fixtures() / "zoo" / "qwen2")), path_(folder_.path() / "plan") {
    save_stages(path_, signature_, {}, take(compile_stages(signature_, {})));
  }

  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string message(const analysis::Signature& signature, const StageOptions& options = {}) const {
    try {
      load_stages(path_, signature, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kBadArgument);
      return error.what();
    }
    return "";
  }

  analysis::Signature signature_;
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

TEST_F(PlanFile, ALoadedPlanGivesTheLogitsOfACompiledOne) {
  const auto stages = std::make_shared<const Stages>(load_stages(path_, signature_, {}));
  const auto logits_of = [&](const std::shared_ptr<const Stages>& of) {
    const auto backend = kvik::testing_support::open_native(fixtures() / "zoo" / "qwen2", {.n_threads = 1, .stages = of});
    const std::unique_ptr<backend::Cache> cache = backend->new_cache();
    backend::Cache* const caches[] = {cache.get()};
    std::vector<backend::Row> rows;
    for (int i = 0; i < 9; ++i) rows.push_back({(i * 7 + 5) % backend->traits().vocab, i, 0, true});
    backend::Logits logits;
    EXPECT_EQ(backend->run(rows, caches, logits), backend::RunStatus::kDone);
    std::vector<float> all;
    for (int i = 0; i < logits.n_rows(); ++i) all.insert(all.end(), logits.row(i).begin(), logits.row(i).end());
    return all;
  };
  EXPECT_EQ(logits_of(stages), logits_of(nullptr));
}

TEST_F(PlanFile, BelongsToOneModelAndOneSetOfOptions) {
  EXPECT_EQ(message(signature_), "");
  EXPECT_THAT(message(signature_, {.context = 77}), testing::HasSubstr("other options"));
  EXPECT_THAT(message(signature_, {.no_fuse = {"norm"}}), testing::HasSubstr("other options"));
  EXPECT_THAT(message(analysis::analyze(fixtures() / "zoo" / "small-hand")), testing::HasSubstr("another model"));
}

TEST_F(PlanFile, DamageIsFound) {
  const std::string whole = bytes();
  for (const size_t at : {size_t{0}, size_t{12}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(damaged);
    EXPECT_THAT(message(signature_), testing::HasSubstr("checksum")) << at;
  }
  write(whole.substr(0, whole.size() / 3));
  EXPECT_THAT(message(signature_), testing::HasSubstr("checksum"));
  write("");
  EXPECT_THAT(message(signature_), testing::HasSubstr("checksum"));
}

// Whoever can write a file can write its checksum too. What is read then runs within its memory, or is a sentence.
TEST_F(PlanFile, AnyBytesAreAPlanThatRunsOrAnError) {
  const std::string whole = bytes();
  const std::vector<PlanModel> models = {{signature_.files.front().path.string(), signature_.files.front().model}};
  std::mt19937 random(11);
  int n_read = 0, n_refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string changed = whole.substr(0, whole.size() - 8);
    for (auto flips = random() % 3 + 1; flips > 0; --flips) changed[random() % changed.size()] = static_cast<char>(random());
    try {
      const SavedPlans saved = parse_plans(std::as_bytes(std::span(changed)), models, "a plan");
      ++n_read;
      if (i % 4 == 0 && saved.plans.at(0) != nullptr) testing_support::outputs(saved.plans[0]);
    } catch (const Error&) { ++n_refused; }
  }
  EXPECT_GT(n_read, 10);
  EXPECT_GT(n_refused, 100);
}

// Positions as floats, by the recipe of one node.
PlanTable angles() {
  auto graph = std::make_shared<OwnedGraph>();
  const onnx::ValueId in = graph->add_value("positions"), out = graph->add_value("angles");
  graph->add_node({.op = "Cast", .opset = 13, .inputs = {in}, .outputs = {out}, .attributes = {{"to", int64_t{1}}}},
                  [](onnx::ValueId id) { return id; });
  graph->graph().inputs = {in};
  graph->graph().outputs = {out};
  auto recipe = std::make_shared<PositionRecipe>();
  recipe->graph = graph;
  recipe->feeds.resize(1);
  recipe->axes = {{factor(Symbol::kBatch)}, {factor(Symbol::kNew)}};
  recipe->dtype = DType::kF32;
  recipe->form.has_past = true;
  recipe->vocab = 1;
  return {.name = "angles", .size = 1, .recipe = recipe};
}

// One of each that the reader has to be careful with: ops, constants, a weight, an attention, tables of rows and of a recipe.
Plan seed_plan() {
  using testing_support::PlanBuilder;
  PlanBuilder b(8);
  const Input normed = b.op(NormOp{.epsilon = 1e-5f}, {b.x(), b.constant(std::vector<float>(8, 1.5f)), {}}, 8);
  const Input qkv = b.matmul(normed, 24);
  const auto wave = [](int64_t position, int64_t element) { return 0.25f * static_cast<float>(position % 3 + element); };
  const int cosines = b.table(4, wave), sines = b.table(4, wave);
  const Input q = b.op(RotaryOp{1, 8, 4}, {PlanBuilder::part(qkv, 0, 8), b.table_input(cosines), b.table_input(sines)}, 8);
  const Input seen = b.attend(q, PlanBuilder::part(qkv, 8, 8), PlanBuilder::part(qkv, 16, 8));
  Plan plan = b.done(b.unary(Unary::kSilu, b.add(b.x(), seen)));
  plan.attends[0].n_heads = plan.attends[0].n_kv_heads = 1;
  plan.attends[0].key_dim = plan.attends[0].value_dim = 8;
  for (PlanTable& table : plan.tables) {  // a few rows, so that the seed is small
    table.limit = 4;
    table.lookup = Tensor::of<float>({4, 4}, table.lookup.data<float>().first(16));
  }
  plan.tables.push_back(angles());
  plan.file = "model.onnx";
  plan.notes = {"note"};
  return plan;
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A seed of another version would be refused before anything of it is read, and the fuzzer would test nothing.
TEST(PlanSeeds, OfTheFuzzerArePlansOfThisVersion) {
  auto model = std::make_shared<onnx::Model>();
  model->graph = std::make_shared<onnx::Graph>();
  const std::vector<PlanModel> models = {{"model.onnx", model}};
  const SavedPlans none, one = {.options = "", .plans = {std::make_shared<Plan>(seed_plan())}, .refused = {""}};
  const std::filesystem::path folder = kvik::testing_support::source_root() / "fuzz" / "seeds" / "plan_file";
  for (const auto& [name, saved] : {std::pair("empty", none), std::pair("small", one)}) {
    const std::string bytes = plan_bytes(saved, models);
    if (std::getenv("KVIK_WRITE_SEEDS") != nullptr) std::ofstream(folder / name, std::ios::binary) << bytes;
    EXPECT_TRUE(contents_of(folder / name) == bytes) << name << ": KVIK_WRITE_SEEDS=1 writes it again";
    EXPECT_EQ(parse_plans(std::as_bytes(std::span(bytes)), models, name).plans.size(), saved.plans.size());
  }
}

}  // namespace
}  // namespace kvik::native
