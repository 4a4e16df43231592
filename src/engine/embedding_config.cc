#include "engine/embedding_config.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/json.h"
#include "kvik/error.h"
#include "tensor/safetensors.h"

namespace kvik::engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostModules = 64;
constexpr double kMostTokens = 1 << 30;  // beyond it a file means "no limit"

// Null if the file does not exist.
Json read_object(const fs::path& path) {
  std::error_code missing;
  if (!fs::exists(path, missing)) return {};
  Json json = read_json_file(path);
  if (!json.is_object()) throw Error(Code::kBadModel, fmt::format("{}: an object was expected", path.string()));
  return json;
}

// A field of an object that may be null, or have null for it.
template <class T>
T field(const Json& object, const char* name, T otherwise, const fs::path& path) {
  if (!object.is_object() || !object.contains(name) || object.at(name).is_null()) return otherwise;
  try {
    return object.at(name).get<T>();
  } catch (const Json::exception&) { throw Error(Code::kBadModel, fmt::format("{}: '{}' has the wrong type", path.string(), name)); }
}

// The folder of a module; its name may not leave the model's.
fs::path module_folder(const fs::path& folder, const std::string& name) {
  const fs::path path(name);
  if (path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end())
    throw Error(Code::kBadModel, fmt::format("{}: the folder '{}' is outside of the model's", (folder / "modules.json").string(), name));
  return folder / path;
}

// The class of a module: the last part of its type, "sentence_transformers.models.Pooling".
std::string class_of(const std::string& type) { return type.substr(type.find_last_of('.') + 1); }

void read_pooling(const fs::path& path, EmbeddingConfig& config) {
  const Json json = read_object(path);
  if (json.is_null()) return;
  constexpr std::pair<const char*, Pooling> kFlags[] = {{"pooling_mode_cls_token", Pooling::kCls},
                                                        {"pooling_mode_max_tokens", Pooling::kMax},
                                                        {"pooling_mode_mean_tokens", Pooling::kMean},
                                                        {"pooling_mode_mean_sqrt_len_tokens", Pooling::kMeanSqrtLen},
                                                        {"pooling_mode_weightedmean_tokens", Pooling::kWeightedMean},
                                                        {"pooling_mode_lasttoken", Pooling::kLastToken}};
  config.pooling.clear();
  for (const auto& [name, pooling] : kFlags) {
    if (field(json, name, false, path)) config.pooling.push_back(pooling);
  }
  // The same by name, one or a list.
  if (json.contains("pooling_mode") && config.pooling.empty()) {
    const Json& mode = json.at("pooling_mode");
    const Json names = mode.is_array() ? mode : Json::array({mode});
    std::string joined;
    for (const Json& name : names) {
      if (!name.is_string()) throw Error(Code::kBadModel, fmt::format("{}: 'pooling_mode' has the wrong type", path.string()));
      joined += (joined.empty() ? "" : "+") + name.get<std::string>();
    }
    try {
      config.pooling = parse_pooling(joined);
    } catch (const Error& e) { config.refused = fmt::format("{}: {}", path.string(), e.what()); }
  }
  config.include_prompt = field(json, "include_prompt", true, path);
}

std::optional<Activation> activation_named(const std::string& type) {
  constexpr std::pair<std::string_view, Activation> kKnown[] = {{"Identity", Activation::kNone},   {"Tanh", Activation::kTanh},
                                                                {"ReLU", Activation::kRelu},       {"GELU", Activation::kGelu},
                                                                {"Sigmoid", Activation::kSigmoid}, {"SiLU", Activation::kSilu}};
  for (const auto& [name, activation] : kKnown) {
    if (class_of(type) == name) return activation;
  }
  return std::nullopt;
}

Tensor as_floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF32) return tensor;
  Tensor floats(DType::kF32, tensor.dims());
  const std::span<float> to = floats.mutable_data<float>();
  const auto copy = [&](auto from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
  };
  if (tensor.dtype() == DType::kF16) copy(tensor.data<Half>());
  if (tensor.dtype() == DType::kBF16) copy(tensor.data<BFloat16>());
  if (tensor.dtype() == DType::kF64) copy(tensor.data<double>());
  return floats;
}

// Sets `refused` for a layer in a form that cannot be read.
void read_dense(const fs::path& folder, EmbeddingConfig& config) {
  const fs::path path = folder / "config.json", weights = folder / "model.safetensors";
  const Json json = read_object(path);
  std::error_code missing;
  if (!fs::exists(weights, missing)) {
    const bool pickled = fs::exists(folder / "pytorch_model.bin", missing);
    config.refused = fmt::format("the dense layer in {} has {}; model.safetensors was expected", folder.string(),
                                 pickled ? "only pytorch_model.bin, which is a Python pickle" : "no weights");
    return;
  }
  const std::string function = field(json, "activation_function", std::string("torch.nn.modules.activation.Tanh"), path);
  const std::optional<Activation> activation = activation_named(function);
  if (!activation) {
    config.refused = fmt::format("the dense layer in {} has the activation {}; Identity, Tanh, ReLU, GELU, Sigmoid or SiLU was expected",
                                 folder.string(), function);
    return;
  }
  for (const char* name : {"module_input_name", "module_output_name"}) {
    const std::string value = field(json, name, std::string("sentence_embedding"), path);
    if (value == "sentence_embedding") continue;
    config.refused = fmt::format("the dense layer in {} works on '{}'; only sentence_embedding is supported", folder.string(), value);
    return;
  }
  DenseLayer layer{.weight = read_safetensor(weights, "linear.weight"), .bias = {}, .activation = *activation};
  const Tensor bias = read_safetensor(weights, "linear.bias");
  if (!layer.weight.defined() || layer.weight.rank() != 2 || (bias.defined() && (bias.rank() != 1 || bias.dim(0) != layer.weight.dim(0))))
    throw Error(Code::kBadModel,
                fmt::format("{}: a matrix 'linear.weight', and a 'linear.bias' of as many rows, were expected", weights.string()));
  layer.weight = as_floats(layer.weight);
  if (bias.defined()) {
    const Tensor floats = as_floats(bias);
    layer.bias.assign(floats.data<float>().begin(), floats.data<float>().end());
  }
  config.dense.push_back(fmt::format("{} x {}", layer.weight.dim(1), layer.weight.dim(0)));
  config.layers.emplace_back(std::move(layer));
}

// Text options of the Transformer module: sentence_*_config.json, with the name of the architecture in the middle.
void read_limits(const fs::path& folder, EmbeddingConfig& config) {
  std::vector<fs::path> found;
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("sentence_") && name.ends_with("_config.json")) found.push_back(entry->path());
  }
  if (found.empty()) return;
  const fs::path path = *std::ranges::min_element(found);
  const Json json = read_object(path);
  const double limit = field(json, "max_seq_length", 0.0, path);
  if (limit >= 1 && limit < kMostTokens) config.max_tokens = static_cast<int>(limit);
  config.lower_case = field(json, "do_lower_case", false, path);
}

void read_modules(const fs::path& folder, EmbeddingConfig& config) {
  const fs::path path = folder / "modules.json";
  std::error_code missing;
  if (!fs::exists(path, missing)) {
    read_pooling(folder / "1_Pooling" / "config.json", config);
    return read_limits(folder, config);
  }
  const Json modules = read_json_file(path);
  if (!modules.is_array() || modules.size() > kMostModules)
    throw Error(Code::kBadModel, fmt::format("{}: a list of at most {} modules was expected", path.string(), kMostModules));
  config.has_modules = true;
  for (const Json& module : modules) {
    const std::string type = class_of(field(module, "type", std::string(), path));
    const fs::path place = module_folder(folder, field(module, "path", std::string(), path));
    if (type == "Transformer") {
      read_limits(place, config);
    } else if (type == "Pooling") {
      read_pooling(place / "config.json", config);
    } else if (type == "Dense") {
      if (config.refused.empty()) read_dense(place, config);
    } else if (type == "Normalize") {
      config.layers.emplace_back(NormalizeLayer{});
    } else if (type != "Dropout" && config.refused.empty()) {
      config.refused =
          fmt::format("{}: the module '{}' is not supported; Transformer, Pooling, Dense and Normalize are", path.string(), type);
    }
  }
}

void read_prompts(const fs::path& path, EmbeddingConfig& config) {
  const Json json = read_object(path);
  if (json.is_null()) return;
  config.prompts = field(json, "prompts", config.prompts, path);
  config.default_prompt = field(json, "default_prompt_name", std::string(), path);
  if (!config.default_prompt.empty() && !config.prompts.contains(config.default_prompt))
    throw Error(Code::kBadModel, fmt::format("{}: the default prompt '{}' is not defined", path.string(), config.default_prompt));
}

}  // namespace

bool EmbeddingConfig::normalizes() const { return !layers.empty() && std::holds_alternative<NormalizeLayer>(layers.back()); }

EmbeddingConfig read_embedding_config(const fs::path& folder) {
  EmbeddingConfig config;
  read_modules(folder, config);
  read_prompts(folder / "config_sentence_transformers.json", config);
  const fs::path path = folder / "tokenizer_config.json";
  const Json tokenizer = read_object(path);
  const double limit = field(tokenizer, "model_max_length", 0.0, path);
  if (!config.max_tokens && limit >= 1 && limit < kMostTokens) config.max_tokens = static_cast<int>(limit);
  config.cut_at_start = field(tokenizer, "truncation_side", std::string(), path) == "left";
  return config;
}

}  // namespace kvik::engine
