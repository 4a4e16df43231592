#include <algorithm>
#include <gtest/gtest.h>

#include "analysis/signature.h"
#include "base/json.h"
#include "support/paths.h"

namespace kvik::analysis {
namespace {

namespace fs = std::filesystem;
using testing_support::fixtures;
using testing_support::shared;
using testing_support::source_root;

// Folders with a config.json of their own: those of this tree, then those beside it.
std::vector<fs::path> zoo_folders() {
  std::vector<fs::path> folders = {source_root() / "models" / "fable", source_root() / "models" / "en-zh"};
  std::vector<fs::path> zoos = {fixtures() / "zoo"};
  if (!shared().empty()) zoos.push_back(shared() / "zoo");
  for (const fs::path& zoo : zoos) {
    if (!fs::is_directory(zoo)) continue;
    for (const auto& entry : fs::directory_iterator(zoo)) {
      if (fs::exists(entry.path() / "config.json")) folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::optional<int64_t> first_of(const Json& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (config.contains(name) && config[name].is_number_integer()) return config[name].get<int64_t>();
  }
  return {};
}

class Zoo : public testing::TestWithParam<fs::path> {
 protected:
  void SetUp() override {
    config_ = read_json_file(GetParam() / "config.json");
    signature_ = analyze(GetParam());
    encodes_only_ = signature_.kind == Kind::kEncoder;
  }
  bool is_encoder_decoder() const { return config_.value("is_encoder_decoder", false); }

  Json config_;
  Signature signature_;
  bool encodes_only_ = false;
};

TEST_P(Zoo, TheKindIsTheOneThatWasExported) {
  const fs::path expected = GetParam() / "expected.json";
  if (!fs::exists(expected)) {
    EXPECT_EQ(signature_.kind, is_encoder_decoder() ? Kind::kEncoderDecoder : Kind::kDecoder);
    return;
  }
  const std::string kind = read_json_file(expected)["kind"];
  EXPECT_EQ(kind_name(signature_.kind), kind == "image" ? "encoder" : kind == "speech" ? "encoder-decoder" : kind);
}

TEST_P(Zoo, TheCacheAgreesWithTheConfig) {
  if (encodes_only_) {
    EXPECT_TRUE(signature_.cache.empty());
    return;
  }
  ASSERT_EQ(signature_.cache.size(), 1u);
  const CacheGroup& cache = signature_.cache.front();
  const auto layers = is_encoder_decoder() ? first_of(config_, {"decoder_layers", "num_decoder_layers", "num_layers"})
                                           : first_of(config_, {"num_hidden_layers", "n_layer", "num_layers", "n_layers", "layers"});
  const auto heads = is_encoder_decoder() ? first_of(config_, {"decoder_attention_heads", "num_heads"})
                                          : first_of(config_, {"num_key_value_heads", "num_attention_heads", "n_head", "n_heads", "heads"});
  auto head_dim = first_of(config_, {"head_dim", "d_kv"});
  const auto width = first_of(config_, {"hidden_size", "n_embd", "d_model", "width"});
  const auto queries = first_of(config_, {"num_attention_heads", "n_head", "n_heads", "decoder_attention_heads", "heads"});
  if (!head_dim && width && queries) head_dim = *width / *queries;
  ASSERT_TRUE(layers && heads && head_dim) << config_.dump();
  EXPECT_EQ(cache.n_layers, *layers);
  EXPECT_EQ(cache.kv_heads, *heads);
  EXPECT_EQ(cache.head_dim, *head_dim);
  EXPECT_EQ(cache.growth, Growth::kGrowing);
  EXPECT_EQ(cache.bytes_per_token, *layers * 2 * *heads * *head_dim * bits_per_element(cache.dtype) / 8);
  ASSERT_EQ(signature_.cross_cache.size(), is_encoder_decoder() ? 1u : 0u);
  if (is_encoder_decoder()) {
    EXPECT_EQ(signature_.cross_cache[0].n_layers, *layers);
    EXPECT_EQ(signature_.cross_cache[0].kv_heads, *heads);
    EXPECT_EQ(signature_.cross_cache[0].head_dim, *head_dim);
    EXPECT_EQ(signature_.cross_cache[0].growth, Growth::kConstant);
  }
}

TEST_P(Zoo, VocabularyAndSpecialTokensAgreeWithTheConfigs) {
  const auto vocab = first_of(config_, {"decoder_vocab_size", "vocab_size", "vocab"});
  if (vocab && signature_.file_of(Stage::kVisionEncoder) == nullptr) { EXPECT_EQ(signature_.vocab, vocab); }
  Json generation = Json::object();
  if (fs::exists(GetParam() / "generation_config.json")) generation = read_json_file(GetParam() / "generation_config.json");
  const auto said = [&](const char* name) {
    return generation.contains(name) && !generation[name].is_null() ? generation[name] : config_.value(name, Json());
  };
  const Json eos = said("eos_token_id");
  EXPECT_EQ(signature_.special.eos, eos.is_null()    ? std::vector<int64_t>{}
                                    : eos.is_array() ? eos.get<std::vector<int64_t>>()
                                                     : std::vector<int64_t>{eos.get<int64_t>()});
  const auto is_said = [](const std::optional<int64_t>& found, const Json& json) {
    return json.is_null() ? !found : found == json.get<int64_t>();
  };
  EXPECT_TRUE(is_said(signature_.special.pad, said("pad_token_id")) || fs::exists(GetParam() / "tokenizer_config.json"));
  EXPECT_TRUE(is_said(signature_.special.decoder_start, said("decoder_start_token_id")));
}

TEST_P(Zoo, EveryInputHasARoleAndEveryPastAPresent) {
  for (const File& file : signature_.files) {
    for (const Port& port : file.inputs) EXPECT_NE(port.role, Role::kUnknown) << file.path << " " << port.name;
    for (const State& state : file.states) {
      EXPECT_TRUE(state.input < 0 || state.cross || state.output >= 0) << file.path << " " << state.layer;
      EXPECT_GT(state.n_heads, 0);
      EXPECT_GT(state.head_dim, 0);
    }
  }
  EXPECT_EQ(signature_.problems, std::vector<std::string>{});
}

TEST_P(Zoo, NamesAndRolesAgree) {
  const std::pair<const char*, Role> known[] = {{"input_ids", Role::kTokenIds},
                                                {"attention_mask", Role::kAttentionMask},
                                                {"position_ids", Role::kPositionIds},
                                                {"token_type_ids", Role::kTokenTypeIds},
                                                {"pixel_values", Role::kPixelValues},
                                                {"use_cache_branch", Role::kUseCacheBranch},
                                                {"encoder_hidden_states", Role::kEncoderHiddenStates},
                                                {"encoder_attention_mask", Role::kEncoderAttentionMask},
                                                {"logits", Role::kLogits},
                                                {"last_hidden_state", Role::kHiddenStates}};
  for (const File& file : signature_.files) {
    for (const auto* ports : {&file.inputs, &file.outputs}) {
      for (const Port& port : *ports) {
        for (const auto& [name, role] : known) {
          EXPECT_TRUE(port.name != name || port.role == role) << file.path << " " << name << " " << role_name(port.role);
        }
        const bool cross = port.name.find(".encoder.") != std::string::npos;
        const Role key = cross ? Role::kCrossKey : ports == &file.inputs ? Role::kPastKey : Role::kPresentKey;
        const Role value = cross ? Role::kCrossValue : ports == &file.inputs ? Role::kPastValue : Role::kPresentValue;
        EXPECT_TRUE(!port.name.ends_with(".key") || port.role == key) << port.name << " " << role_name(port.role);
        EXPECT_TRUE(!port.name.ends_with(".value") || port.role == value) << port.name << " " << role_name(port.role);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Zoo, testing::ValuesIn(zoo_folders()), [](const auto& tested) {
  const fs::path& folder = tested.param;
  std::string name = (folder.parent_path().parent_path().filename().string() == "shared" ? "shared_" : "own_") + folder.filename().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

const State& state_named(const File& file, const std::string& name) {
  for (const State& state : file.states) {
    if (state.input >= 0 && file.inputs[static_cast<size_t>(state.input)].name == name) return state;
  }
  throw std::runtime_error("no state " + name);
}

TEST(SharedModels, ACacheOfKeysAndValuesStackedPerLayerIsRead) {
  KVIK_NEEDS_SHARED();
  const Signature s = analyze(shared() / "fixtures" / "models" / "tiny-random-gpt2");
  ASSERT_EQ(s.files.size(), 1u);
  EXPECT_EQ(s.kind, Kind::kDecoder);
  EXPECT_EQ(s.vocab, 1000);
  ASSERT_EQ(s.cache.size(), 1u);
  EXPECT_EQ(s.cache[0].n_layers, 5);
  EXPECT_EQ(s.cache[0].kv_heads, 4);
  EXPECT_EQ(s.cache[0].head_dim, 8);
  const State& past = state_named(s.files[0], "past_3");
  EXPECT_EQ(past.holds, State::Holds::kKeyValue);
  EXPECT_EQ(past.key_value_axis, 0);
  EXPECT_EQ(past.batch_axis, 1);
  EXPECT_EQ(past.head_axis, 2);
  EXPECT_EQ(past.position_axis, 3);
  EXPECT_EQ(past.layer, 3);
  EXPECT_EQ(s.files[0].input_of(Role::kTokenIds)->name, "input_ids");
  EXPECT_EQ(s.files[0].input_of(Role::kPositionIds)->name, "position_ids");
  EXPECT_EQ(s.files[0].input_of(Role::kAttentionMask)->name, "attention_mask");
}

TEST(SharedModels, OneSetOfWeightsInFourFormsHasOneCache) {
  KVIK_NEEDS_SHARED();
  for (const char* name : {"tiny-llm", "tiny-llm-explicit-io", "tiny-llm-sharedbuffer", "tiny-llm-scatter"}) {
    const Signature s = analyze(shared() / "fixtures" / "models" / name);
    EXPECT_EQ(s.kind, Kind::kDecoder) << name;
    EXPECT_EQ(s.vocab, 32) << name;
    ASSERT_EQ(s.cache.size(), 1u) << name;
    EXPECT_EQ(s.cache[0].n_layers, 1) << name;
    EXPECT_EQ(s.cache[0].kv_heads, 2) << name;
    EXPECT_EQ(s.cache[0].head_dim, 8) << name;
    EXPECT_EQ(s.cache[0].growth, name == std::string("tiny-llm-scatter") ? Growth::kFixed : Growth::kGrowing) << name;
  }
}

TEST(SharedModels, PortsWithUnusualNamesAreRecognizedByDataflow) {
  KVIK_NEEDS_SHARED();
  const File file = analyze(shared() / "fixtures" / "models" / "tiny-llm-explicit-io").files.at(0);
  EXPECT_EQ(file.input_of(Role::kTokenIds)->name, "tokens");
  EXPECT_EQ(file.input_of(Role::kAttentionMask)->name, "attn_mask_port");
  EXPECT_EQ(file.input_of(Role::kPositionIds)->name, "pos_port");
  EXPECT_EQ(file.output_of(Role::kLogits)->name, "out_logits");
  const File scatter = analyze(shared() / "fixtures" / "models" / "tiny-llm-scatter").files.at(0);
  EXPECT_EQ(scatter.input_of(Role::kWriteIndices)->name, "write_indices");
  EXPECT_EQ(scatter.input_of(Role::kKvLength)->name, "nonpad_kv_seqlen");
  EXPECT_FALSE(scatter.input_of(Role::kKvLength)->means_past);
  EXPECT_EQ(scatter.states.at(0).capacity, 16);
}

}  // namespace
}  // namespace kvik::analysis
