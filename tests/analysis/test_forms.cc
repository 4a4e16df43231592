#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/signature.h"
#include "base/json.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik::analysis {
namespace {

namespace fs = std::filesystem;
using testing_support::fixtures;

// Inputs that cannot be distinguished are reported; everything else must be detected.
bool is_a_question(const Json& expect) {
  return std::any_of(expect["inputs"].begin(), expect["inputs"].end(), [](const Json& port) { return port["role"] == "unknown"; });
}

std::vector<std::string> form_names(bool questions) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fixtures() / "forms")) {
    if (!fs::exists(entry.path() / "expect.json")) continue;
    if (is_a_question(read_json_file(entry.path() / "expect.json")) == questions) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

const File* file_at(const Signature& signature, const std::string& path) {
  for (const File& file : signature.files) {
    if (file.path == signature.folder / path) return &file;
  }
  return nullptr;
}

const Port* port_called(const std::vector<Port>& ports, const std::string& name) {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.name == name; });
  return found == ports.end() ? nullptr : &*found;
}

const State* state_of(const File& file, const std::string& input) {
  for (const State& state : file.states) {
    if (state.input >= 0 && file.inputs[static_cast<size_t>(state.input)].name == input) return &state;
  }
  return nullptr;
}

class Forms : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = fixtures() / "forms" / GetParam();
    expect_ = read_json_file(folder_ / "expect.json");
    signature_ = analyze(folder_);
  }
  fs::path folder_;
  Json expect_;
  Signature signature_;
};

TEST_P(Forms, KindAndStagesAreDetected) {
  EXPECT_EQ(kind_name(signature_.kind), expect_["kind"].get<std::string>());
  EXPECT_EQ(signature_.files.size(), expect_["files"].size());
  for (const Json& described : expect_["files"]) {
    const File* file = file_at(signature_, described["path"]);
    ASSERT_NE(file, nullptr) << described["path"];
    EXPECT_EQ(stage_name(file->stage), described["role"].get<std::string>()) << described["path"];
  }
}

TEST_P(Forms, EveryPortHasItsRole) {
  for (const char* side : {"inputs", "outputs"}) {
    for (const Json& described : expect_[side]) {
      const File* file = file_at(signature_, described["file"]);
      ASSERT_NE(file, nullptr);
      const Port* port = port_called(side == std::string("inputs") ? file->inputs : file->outputs, described["name"]);
      ASSERT_NE(port, nullptr) << described["name"];
      EXPECT_EQ(role_name(port->role), described["role"].get<std::string>()) << described["name"];
      EXPECT_EQ(dtype_name(port->dtype), described["dtype"].get<std::string>()) << described["name"];
      EXPECT_TRUE(!described.contains("means") || port->means_past == (described["means"] == "past")) << described["name"];
    }
  }
}

TEST_P(Forms, StatesArePairedWithTheirAxes) {
  for (const Json& pair : expect_["pairs"]) {
    const File* file = file_at(signature_, pair["file"]);
    ASSERT_NE(file, nullptr);
    const State* state = state_of(*file, pair["past"]);
    ASSERT_NE(state, nullptr) << pair["past"];
    ASSERT_GE(state->output, 0) << pair["past"];
    EXPECT_EQ(file->outputs[static_cast<size_t>(state->output)].name, pair["present"].get<std::string>());
    EXPECT_EQ(state->layer, pair["layer"].get<int>()) << pair["past"];
    EXPECT_EQ(growth_name(state->growth), pair["growth"].get<std::string>()) << pair["past"];
    EXPECT_EQ(state->position_axis, pair["axis"].is_null() ? -1 : pair["axis"].get<int>()) << pair["past"];
    EXPECT_EQ(state->batch_axis, pair["batch_axis"].get<int>()) << pair["past"];
  }
}

std::string in_words(const CacheGroup& group) {
  return fmt::format("{} layers of {}x{}/{} {} {} {}/{} first {}", group.n_layers, group.kv_heads, group.head_dim, group.value_head_dim,
                     dtype_name(group.dtype), growth_name(group.growth), group.bytes_per_token, group.bytes_per_sequence,
                     group.layers.front());
}

std::string in_words(const Json& group) {
  const int64_t head_dim = group.value("head_dim", int64_t{0});
  return fmt::format("{} layers of {}x{}/{} {} {} {}/{} first {}", group["layers"].size(), group.value("kv_heads", int64_t{0}), head_dim,
                     group.value("value_head_dim", head_dim), group["dtype"].get<std::string>(), group["growth"].get<std::string>(),
                     group["bytes_per_token"].get<int64_t>(),
                     group.value("bytes_per_sequence", int64_t{0}) * static_cast<int64_t>(group["layers"].size()),
                     group["layers"][0].get<int>());
}

TEST_P(Forms, TheCacheIsSummarized) {
  std::vector<std::string> found, expected;
  for (const CacheGroup& group : signature_.cache) found.push_back(in_words(group));
  for (const CacheGroup& group : signature_.cross_cache) found.push_back(in_words(group));
  for (const Json& group : expect_["cache"]) expected.push_back(in_words(group));
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(signature_.vocab ? Json(*signature_.vocab) : Json(nullptr), expect_["vocab"]);
}

class Questions : public testing::TestWithParam<std::string> {};

TEST_P(Questions, AmbiguousInputsAreReportedAndNotGuessed) {
  const fs::path folder = fixtures() / "forms" / GetParam();
  const Json expect = read_json_file(folder / "expect.json");
  try {
    analyze(folder);
    FAIL() << "no question was asked";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadArgument);
    EXPECT_NE(std::string(e.what()).find("kvik.json"), std::string::npos) << e.what();
    for (const Json& port : expect["inputs"]) {
      if (port["role"] != "unknown") continue;
      EXPECT_NE(std::string(e.what()).find("'" + port["name"].get<std::string>() + "'"), std::string::npos) << e.what();
    }
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Forms, testing::ValuesIn(form_names(false)), test_name);
INSTANTIATE_TEST_SUITE_P(All, Questions, testing::ValuesIn(form_names(true)), test_name);

}  // namespace
}  // namespace kvik::analysis
