#include "analysis/configs.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::analysis {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostLayers = 4096;

// Sections that describe the text model of a multimodal model.
constexpr std::string_view kTextParts[] = {"text_config", "decoder", "llm_config", "language_config", "language_model"};

const Json* member(const Json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(std::string(name));
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> as_number(const Json* json) {
  if (json == nullptr) return {};
  if (json->is_number_integer()) return json->get<int64_t>();
  return {};
}

const Json* find_in_config(const Json& config, std::string_view name) {
  if (const Json* found = member(config, name)) return found;
  for (const std::string_view part : kTextParts) {
    const Json* inner = member(config, part);
    if (inner == nullptr) continue;
    if (const Json* found = member(*inner, name)) return found;
  }
  return nullptr;
}

void require_object(const Json& json, const fs::path& path) {
  if (!json.is_object())
    throw Error(Code::kBadModel, fmt::format("{}: a JSON object was expected; {} was found", path.string(), json.type_name()));
}

Json read_if_there(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  std::error_code unreadable;
  if (!fs::exists(path, unreadable)) return nullptr;
  Json json = read_json_file(path);
  require_object(json, path);
  return json;
}

Role role_or_throw(const Json& said, const std::string& port, const fs::path& folder) {
  const auto role = said.is_string() ? role_named(said.get<std::string>()) : std::nullopt;
  if (role) return *role;
  throw Error(Code::kBadArgument, fmt::format("{}: '{}' has unknown role {}; docs/kvik-json.md lists the roles",
                                              (folder / "kvik.json").string(), port, said.dump()));
}

void add_roles(const Json& part, const fs::path& folder, Hints& hints) {
  for (const auto& [key, roles] : {std::pair<std::string_view, Hints::Roles*>{"inputs", &hints.inputs}, {"outputs", &hints.outputs}}) {
    const Json* said = member(part, key);
    if (said == nullptr) continue;
    require_object(*said, folder / "kvik.json");
    for (const auto& [port, role] : said->items()) roles->insert_or_assign(port, role_or_throw(role, port, folder));
  }
}

struct GenaiName {
  std::string_view name;
  Role role;
};
constexpr GenaiName kGenaiInputs[] = {
    {"input_ids", Role::kTokenIds},
    {"inputs_embeds", Role::kInputsEmbeds},
    {"embeddings", Role::kInputsEmbeds},
    {"attention_mask", Role::kAttentionMask},
    {"position_ids", Role::kPositionIds},
    {"encoder_hidden_states", Role::kEncoderHiddenStates},
    {"encoder_attention_mask", Role::kEncoderAttentionMask},
    {"audio_features", Role::kAudioFeatures},
    {"pixel_values", Role::kPixelValues},
    {"past_sequence_length", Role::kKvLength},
    {"past_key_values_length", Role::kKvLength},
    {"current_sequence_length", Role::kKvLength},
    {"total_sequence_length", Role::kKvLength},
    {"rnn_states_prev", Role::kRecurrentState},
    {"past_key_names", Role::kPastKey},
    {"past_value_names", Role::kPastValue},
    {"past_names", Role::kPastKeyValue},
    {"cross_past_key_names", Role::kCrossKey},
    {"cross_past_value_names", Role::kCrossValue},
    {"past_conv_names", Role::kRecurrentState},
};
constexpr GenaiName kGenaiOutputs[] = {
    {"logits", Role::kLogits},
    {"hidden_states", Role::kHiddenStates},
    {"encoder_hidden_states", Role::kHiddenStates},
    {"encoder_outputs", Role::kHiddenStates},
    {"image_features", Role::kHiddenStates},
    {"audio_features", Role::kHiddenStates},
    {"inputs_embeds", Role::kEmbeddings},
    {"rnn_states", Role::kRecurrentState},
    {"present_key_names", Role::kPresentKey},
    {"present_value_names", Role::kPresentValue},
    {"present_names", Role::kPresentKeyValue},
    {"cross_present_key_names", Role::kCrossKey},
    {"cross_present_value_names", Role::kCrossValue},
    {"present_conv_names", Role::kRecurrentState},
};

// "past.%d.key" is one name per layer.
void add_expanded(const std::string& pattern, int64_t n_layers, Role role, Hints::Roles& roles) {
  const size_t at = pattern.find("%d");
  if (at == std::string::npos) {
    roles.emplace(pattern, role);
    return;
  }
  for (int64_t layer = 0; layer < std::min(n_layers, kMostLayers); ++layer) {
    roles.emplace(pattern.substr(0, at) + std::to_string(layer) + pattern.substr(at + 2), role);
  }
}

template <size_t N>
void add_genai(const Json* names, const GenaiName (&known)[N], int64_t n_layers, Hints::Roles& roles) {
  if (names == nullptr || !names->is_object()) return;
  for (const GenaiName& entry : known) {
    const Json* name = member(*names, entry.name);
    if (name != nullptr && name->is_string()) add_expanded(name->get<std::string>(), n_layers, entry.role, roles);
  }
}

// The parts of "model" that describe a file: {"filename": …, "inputs": …, "outputs": …}.
std::vector<const Json*> genai_parts(const Json& genai) {
  std::vector<const Json*> parts;
  const Json* model = member(genai, "model");
  if (model == nullptr || !model->is_object()) return parts;
  for (const auto& [name, part] : model->items()) {
    if (!part.is_object()) continue;
    parts.push_back(&part);
    const Json* pipeline = member(part, "pipeline");
    if (pipeline == nullptr || !pipeline->is_array()) continue;
    for (const Json& stage : *pipeline) {
      if (!stage.is_object()) continue;
      for (const auto& [stage_title, described] : stage.items()) parts.push_back(&described);
    }
  }
  return parts;
}

std::vector<int64_t> as_list(const Json* json) {
  if (const auto one = as_number(json)) return {*one};
  std::vector<int64_t> list;
  if (json == nullptr || !json->is_array()) return list;
  for (const Json& element : *json) {
    if (const auto number = as_number(&element)) list.push_back(*number);
  }
  return list;
}

// tokenizer_config.json has the texts of special tokens, and the ids and texts of added tokens.
std::optional<int64_t> tokenizer_id(const Json& tokenizer, std::string_view name) {
  const Json* token = member(tokenizer, name);
  if (token == nullptr) return {};
  if (token->is_object()) token = member(*token, "content");
  const Json* added = member(tokenizer, "added_tokens_decoder");
  if (token == nullptr || !token->is_string() || added == nullptr || !added->is_object()) return {};
  for (const auto& [id, described] : added->items()) {
    const Json* content = member(described, "content");
    if (content == nullptr || *content != *token) continue;
    if (id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != std::string::npos) continue;
    return std::stoll(id);
  }
  return {};
}

class TokenFinder {
 public:
  explicit TokenFinder(const Configs& configs) : configs_(configs) {}

  std::vector<int64_t> list(const std::string& name) const {
    const std::string key = name + "_token_id";
    for (const Json* json : {genai(key), member(configs_.generation, key), find_in_config(configs_.config, key)}) {
      if (auto ids = as_list(json); !ids.empty()) return ids;
    }
    if (const auto id = tokenizer_id(configs_.tokenizer, name + "_token")) return {*id};
    return {};
  }
  std::optional<int64_t> one(const std::string& name) const {
    const std::vector<int64_t> ids = list(name);
    if (ids.empty()) return {};
    return ids.front();
  }

 private:
  const Json* genai(const std::string& key) const {
    const Json* model = member(configs_.genai, "model");
    return model == nullptr ? nullptr : member(*model, key);
  }
  const Configs& configs_;
};

}  // namespace

std::optional<int64_t> Configs::number(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (const auto found = as_number(find_in_config(config, name))) return found;
  }
  return {};
}

bool Configs::flag(std::string_view name) const {
  const Json* found = find_in_config(config, name);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

bool Configs::architecture_has(std::initializer_list<std::string_view> parts) const {
  const Json* list = member(config, "architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) return false;
  const std::string name = list->front().get<std::string>();
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

std::optional<int64_t> Configs::genai_number(std::string_view name) const {
  const Json* model = member(genai, "model");
  if (model == nullptr) return {};
  if (const auto found = as_number(member(*model, name))) return found;
  const Json* decoder = member(*model, "decoder");
  return decoder == nullptr ? std::nullopt : as_number(member(*decoder, name));
}

Configs read_configs(const fs::path& folder) {
  Configs configs;
  configs.folder = folder;
  std::error_code unreadable;
  const bool is_inner = folder.filename() == "onnx" && !fs::exists(folder / "config.json", unreadable);
  if (is_inner && fs::exists(folder.parent_path() / "config.json", unreadable)) configs.folder = folder.parent_path();
  configs.config = read_if_there(configs.folder, "config.json");
  configs.generation = read_if_there(configs.folder, "generation_config.json");
  configs.genai = read_if_there(configs.folder, "genai_config.json");
  configs.tokenizer = read_if_there(configs.folder, "tokenizer_config.json");
  configs.kvik = read_if_there(configs.folder, "kvik.json");
  return configs;
}

std::vector<std::string> genai_files(const Configs& configs) {
  std::vector<std::string> files;
  for (const Json* part : genai_parts(configs.genai)) {
    const Json* name = member(*part, "filename");
    if (name == nullptr || !name->is_string()) continue;
    const std::string file = name->get<std::string>();
    if (!file.empty() && std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  }
  return files;
}

Hints hints_for(const Configs& configs, const fs::path& file) {
  Hints hints;
  if (configs.kvik.is_object()) {
    add_roles(configs.kvik, configs.folder, hints);
    const Json* files = member(configs.kvik, "files");
    const Json* own = files == nullptr ? nullptr : member(*files, file.filename().string());
    if (own != nullptr) add_roles(*own, configs.folder, hints);
  }
  const int64_t n_layers = configs.genai_number("num_hidden_layers").value_or(0);
  for (const Json* part : genai_parts(configs.genai)) {
    const Json* name = member(*part, "filename");
    if (name == nullptr || !name->is_string() || fs::path(name->get<std::string>()).filename() != file.filename()) continue;
    add_genai(member(*part, "inputs"), kGenaiInputs, n_layers, hints.weak_inputs);
    add_genai(member(*part, "outputs"), kGenaiOutputs, n_layers, hints.weak_outputs);
  }
  return hints;
}

SpecialTokens special_tokens(const Configs& configs) {
  const TokenFinder find(configs);
  SpecialTokens special;
  special.bos = find.one("bos");
  special.eos = find.list("eos");
  special.pad = find.one("pad");
  special.unk = find.one("unk");
  special.decoder_start = find.one("decoder_start");
  special.forced_bos = find.one("forced_bos");
  special.forced_eos = find.one("forced_eos");
  return special;
}

std::optional<int64_t> configured_positions(const Configs& configs) {
  if (const auto found = configs.genai_number("context_length")) return found;
  return configs.number({"max_decoder_position_embeddings", "max_position_embeddings", "max_target_positions", "n_positions", "n_ctx",
                         "max_sequence_length", "max_seq_len", "seq_length", "model_max_length", "context_length"});
}

}  // namespace kvik::analysis
