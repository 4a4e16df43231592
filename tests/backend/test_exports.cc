// Layouts of exporters that feed, write or keep their caches in unusual ways, on the backends that run whole graphs.
#include <gmock/gmock.h>
#include <map>

#include "analysis/signature.h"
#include "backend/graph/graph_backend.h"
#include "backend/reference/reference_backend.h"
#include "engine/sequence.h"
#include "kvik/error.h"
#include "support/models.h"
#include "verify/decoder_laws.h"

namespace kvik::backend {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::filesystem::path form(const std::string& name) { return testing_support::fixtures() / "forms" / name; }

// Keeps the shapes that the last run was fed.
class Watched final : public Executor {
 public:
  using Shapes = std::map<std::string, Dims, std::less<>>;
  Watched(std::unique_ptr<Executor> inner, Shapes& shapes) : inner_(std::move(inner)), shapes_(shapes) {}

  ValuePtr from_host(Tensor tensor) override { return inner_->from_host(std::move(tensor)); }
  std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const Wanted> outputs) override {
    shapes_.clear();
    for (const NamedValue& input : inputs) shapes_[std::string(input.name)] = input.value->dims();
    return inner_->run(inputs, outputs);
  }

 private:
  std::unique_ptr<Executor> inner_;
  Shapes& shapes_;
};

// What the run of a prompt of five tokens was fed.
Watched::Shapes shapes_of_prompt(const std::string& name) {
  Watched::Shapes shapes;
  const auto open = [&](const analysis::File& file) { return std::make_unique<Watched>(make_reference_executor(file), shapes); };
  const auto backend = std::make_shared<GraphBackend>(analysis::analyze(form(name)), Traits{.name = "watched"}, open);
  engine::Sequence sequence(backend, 0);
  const std::vector<TokenId> prompt = {5, 6, 7, 8, 9};
  EXPECT_EQ(sequence.append(prompt), AppendStatus::kDone);
  return shapes;
}

TEST(Exports, AStartPositionIsFedWithTheDeclaredRank) {
  EXPECT_EQ(shapes_of_prompt("fixed-scalar-position")["pos"], Dims{});
  EXPECT_EQ(shapes_of_prompt("fixed-one-position")["cache_position"], Dims{1});
  EXPECT_EQ(shapes_of_prompt("growing-scalar-start")["start_pos"], Dims{});
  EXPECT_EQ(shapes_of_prompt("growing-one-start")["position_ids"], Dims{1});
}

TEST(Exports, AnUnclearCountOfPositionsIsFoundByARun) {
  const Watched::Shapes shapes = shapes_of_prompt("fixed-unclear-count");
  EXPECT_EQ(shapes.at("input_ids"), (Dims{1, 5}));
  EXPECT_EQ(shapes.at("cache_position"), Dims{1});
  EXPECT_EQ(shapes_of_prompt("fixed-position").at("cache_position"), Dims{5});
}

TEST(Exports, AFileWithoutLogitsIsDescribedAndRefusedForGeneration) {
  for (const char* name : {"hidden-states", "hidden-states-unnamed"}) {
    const analysis::Signature signature = analysis::analyze(form(name));
    EXPECT_EQ(signature.kind, analysis::Kind::kDecoder);
    EXPECT_THAT(signature.problems, testing::Contains(HasSubstr("outputs hidden states and no logits")));
    EXPECT_THAT([&] { make_reference_backend(signature, 0); }, ThrowsMessage<Error>(HasSubstr("outputs hidden states and no logits")))
        << name;
  }
}

// Rewinds, forks, splits and batches; the prompt is longer than the window of the one that has a window.
class ExportLaws : public testing::TestWithParam<std::string> {};

TEST_P(ExportLaws, HoldOnWholeGraphs) {
  laws::DecoderLaws options;
  options.prompt = {31, 12, 43, 24, 5, 36, 17, 48, 29, 10, 41, 22};
  for (const auto& backend : {testing_support::open_reference(form(GetParam())), testing_support::open_ort(form(GetParam()))}) {
    if (backend == nullptr) continue;  // no ONNX Runtime
    options.peers = {{"= reference", testing_support::open_reference(form(GetParam())), options.tolerance}};
    for (const Law& law : laws::verify_decoder(backend, options))
      EXPECT_TRUE(law.holds) << backend->traits().name << ": " << law.name << ": " << law.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ExportLaws,
                         testing::Values("fixed-scalar-position", "fixed-one-position", "fixed-unclear-count", "fixed-one-hot",
                                         "fixed-rolled", "growing-scalar-start", "growing-one-start", "no-batch-axis", "no-batch-anywhere",
                                         "window-cache"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kvik::backend
