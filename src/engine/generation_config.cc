#include "engine/generation_config.h"

#include <fmt/format.h>

#include "base/json.h"
#include "kvik/error.h"

namespace kvik::engine {
namespace {

// Reads one config file, with error messages that name it.
class ConfigFile {
 public:
  ConfigFile(const std::filesystem::path& path, const char* section = nullptr) : path_(path.string()) {
    if (!std::filesystem::exists(path)) return;
    root_ = read_json_file(path);
    if (!root_.is_object()) throw Error(Code::kBadModel, fmt::format("{}: an object was expected", path_));
    if (section != nullptr) root_ = root_.value(section, Json::object());
  }

  const Json* find(const char* key) const {
    const auto found = root_.find(key);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void refuse(const char* key, const char* wanted) const {
    throw Error(Code::kBadModel, fmt::format("{}: '{}' is {}; {} was expected", path_, key, find(key)->dump().substr(0, 60), wanted));
  }

  void read(const char* key, double& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number()) refuse(key, "a number");
    target = value->get<double>();
  }
  void read(const char* key, int& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number()) refuse(key, "a whole number");
    target = static_cast<int>(std::clamp(value->get<double>(), -1e9, 1e9));
  }
  void read(const char* key, uint64_t& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) refuse(key, "a whole number, 0 or more");
    target = value->get<uint64_t>();
  }
  void read(const char* key, std::vector<std::pair<TokenId, double>>&) const { refuse(key, "sequence_bias instead"); }
  void read(const char* key, bool& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) refuse(key, "true or false");
    target = value->get<bool>();
  }
  template <class T>
  void read(const char* key, std::optional<T>& target) const {
    if (find(key) == nullptr) return;
    T value{};
    read(key, value);
    target = value;
  }
  // One id or a list of them.
  void read(const char* key, std::vector<TokenId>& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    target = ids(*value, key);
  }
  // Other models keep something else under such a name.
  void read(const char* key, std::optional<std::string>& target) const {
    const Json* value = find(key);
    if (value != nullptr && value->is_string()) target = value->get<std::string>();
  }
  // {"name": id, …}
  void read(const char* key, std::vector<std::pair<std::string, TokenId>>& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) refuse(key, "names with token ids");
    target.clear();
    for (const auto& [name, id] : value->items()) {
      if (!id.is_number_integer()) refuse(key, "names with token ids");
      target.emplace_back(name, ids(id, key).front());
    }
  }
  void read(const char* key, std::vector<std::vector<TokenId>>& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) refuse(key, "a list of lists of token ids");
    target.clear();
    for (const Json& entry : *value) target.push_back(ids(entry, key));
  }
  void read(const char* key, std::vector<SequenceBias>& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    constexpr const char* kWanted = "a list of [[ids], bias]";
    if (!value->is_array()) refuse(key, kWanted);
    target.clear();
    for (const Json& entry : *value) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_array() || !entry[1].is_number()) refuse(key, kWanted);
      target.push_back({ids(entry[0], key), entry[1].get<double>()});
    }
  }
  void read(const char* key, DecayLengthPenalty& target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array() || value->size() != 2 || !(*value)[0].is_number_integer() || !(*value)[1].is_number())
      refuse(key, "[start, factor]");
    target = {static_cast<int>(std::clamp<int64_t>((*value)[0].get<int64_t>(), -1, INT32_MAX)), (*value)[1].get<double>()};
  }

 private:
  std::vector<TokenId> ids(const Json& value, const char* key) const {
    std::vector<TokenId> result;
    const auto add = [&](const Json& id) {
      if (!id.is_number_integer()) refuse(key, "a token id or a list of them");
      result.push_back(static_cast<TokenId>(std::clamp<int64_t>(id.get<int64_t>(), -1, INT32_MAX)));
    };
    if (value.is_array()) {
      for (const Json& id : value) add(id);
    } else {
      add(value);
    }
    return result;
  }

  std::string path_;
  Json root_ = Json::object();
};

void read_sampling(const ConfigFile& file, Sampling& sampling) {
  bool do_sample = sampling.temperature.value_or(0) > 0;
  file.read("do_sample", do_sample);
  // Hugging Face samples at temperature 1 among the 50 likeliest unless the file sets them.
  if (do_sample && !sampling.temperature) sampling.temperature = 1.0, sampling.top_k = 50;
  for (const SamplingField& field : sampling_fields()) {
    if (field.sampling_only && !do_sample) continue;
    std::visit([&](auto member) { file.read(field.name.data(), sampling.*member); }, field.member);
  }
}

void read_early_stopping(const ConfigFile& file, GenerationConfig& config) {
  const Json* value = file.find("early_stopping");
  if (value == nullptr) return;
  if (value->is_boolean()) {
    config.early_stopping = value->get<bool>() ? EarlyStopping::kTrue : EarlyStopping::kFalse;
  } else if (*value == "never") {
    config.early_stopping = EarlyStopping::kNever;
  } else {
    file.refuse("early_stopping", "true, false or \"never\"");
  }
}

void read_forced_decoder_ids(const ConfigFile& file, GenerationConfig& config) {
  const Json* value = file.find("forced_decoder_ids");
  if (value == nullptr) return;
  config.forced_decoder_ids.clear();
  for (const Json& entry : *value) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number_integer())
      file.refuse("forced_decoder_ids", "a list of [position, id]");
    const bool is_open = entry[1].is_null();
    if (!is_open && !entry[1].is_number_integer()) file.refuse("forced_decoder_ids", "a list of [position, id]");
    config.forced_decoder_ids.emplace_back(entry[0].get<int>(), is_open ? std::nullopt : std::optional(entry[1].get<TokenId>()));
  }
}

void read_file(const ConfigFile& file, GenerationConfig& config) {
  read_sampling(file, config.sampling);
  file.read("max_new_tokens", config.max_new_tokens);
  file.read("max_length", config.max_length);
  file.read("num_beams", config.beams);
  file.read("length_penalty", config.length_penalty);
  file.read("num_return_sequences", config.num_return_sequences);
  file.read("decoder_start_token_id", config.decoder_start);
  file.read("lang_to_id", config.languages);
  file.read("task_to_id", config.tasks);
  file.read("language", config.language);
  file.read("task", config.task);
  file.read("no_timestamps_token_id", config.no_timestamps);
  file.read("max_initial_timestamp_index", config.max_initial_timestamp_index);
  read_early_stopping(file, config);
  read_forced_decoder_ids(file, config);
}

}  // namespace

GenerationConfig read_generation_config(const analysis::Signature& signature) {
  GenerationConfig config;
  // The later ones win.
  read_file(ConfigFile(signature.folder / "genai_config.json", "search"), config);
  // genai writes the largest possible length here, others a default.
  config.max_length.reset();
  read_file(ConfigFile(signature.folder / "config.json"), config);
  const std::filesystem::path own = signature.folder / "generation_config.json";
  config.has_own_file = std::filesystem::exists(own);
  read_file(ConfigFile(own), config);
  for (const int64_t id : signature.special.eos) config.eos.push_back(static_cast<TokenId>(id));
  if (!config.decoder_start && signature.special.decoder_start)
    config.decoder_start = static_cast<TokenId>(*signature.special.decoder_start);
  return config;
}

}  // namespace kvik::engine
