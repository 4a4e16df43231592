#include "analysis/summary.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kvik::analysis {
namespace {

constexpr int64_t kMostStackedLayers = 4096;

// The cache of one layer.
struct Layer {
  int64_t kv_heads = 0, head_dim = 0, value_head_dim = 0;
  DType dtype = DType::kUndefined;
  Growth growth = Growth::kGrowing;
  int64_t bytes_per_token = 0;
  int64_t bytes_per_sequence = 0;
  int64_t shape_key = 0;  // recurrent states of different shapes are in different groups
};

int64_t recurrent_bytes(const File& file, const State& state) {
  const Port& port = state.input >= 0 ? file.inputs[static_cast<size_t>(state.input)] : file.outputs[static_cast<size_t>(state.output)];
  Dims dims;
  for (size_t axis = 0; axis < port.dims.size(); ++axis) {
    if (static_cast<int>(axis) != state.batch_axis) dims.push_back(port.dims[axis].value);
  }
  const auto n = checked_elements(dims);  // nullopt if a size is unknown
  return n ? static_cast<int64_t>(storage_bytes(state.dtype, *n)) : 0;
}

void add_state(const File& file, const State& state, Layer& layer) {
  layer.dtype = state.dtype;
  layer.growth = state.growth;
  if (state.growth == Growth::kRecurrent) {
    layer.bytes_per_sequence = recurrent_bytes(file, state);
    return;
  }
  layer.kv_heads = std::max(layer.kv_heads, state.n_heads);
  if (state.holds != State::Holds::kValue) layer.head_dim = state.head_dim;
  if (state.holds != State::Holds::kKey) layer.value_head_dim = state.head_dim;
  layer.bytes_per_token += state.bytes_per_token() / std::max<int64_t>(state.n_layers, 1);
}

using LayerKey = std::pair<int, int>;  // layer, and index among its recurrent states

std::map<LayerKey, Layer> layers_of(const File& file, bool cross) {
  std::map<LayerKey, Layer> layers;
  std::map<int, int> n_recurrent;
  for (const State& state : file.states) {
    if (state.cross != cross) continue;
    if (state.growth == Growth::kRecurrent) {
      add_state(file, state, layers[{state.layer, ++n_recurrent[state.layer]}]);
      continue;
    }
    for (int64_t n = 0; n < std::min(state.n_layers, kMostStackedLayers); ++n)
      add_state(file, state, layers[{state.layer + static_cast<int>(n), 0}]);
  }
  return layers;
}

std::vector<CacheGroup> groups_of(const File& file, bool cross) {
  std::vector<CacheGroup> groups;
  for (auto& [key, layer] : layers_of(file, cross)) {
    if (layer.head_dim == 0) layer.head_dim = layer.value_head_dim;
    if (layer.value_head_dim == 0) layer.value_head_dim = layer.head_dim;
    const auto alike = std::find_if(groups.begin(), groups.end(), [&, &one = layer](const CacheGroup& g) {
      return g.kv_heads == one.kv_heads && g.head_dim == one.head_dim && g.value_head_dim == one.value_head_dim && g.dtype == one.dtype &&
             g.growth == one.growth && g.bytes_per_sequence == one.bytes_per_sequence * g.n_layers;
    });
    CacheGroup& group = alike != groups.end() ? *alike : groups.emplace_back();
    ++group.n_layers;
    group.layers.push_back(key.first);
    group.kv_heads = layer.kv_heads;
    group.head_dim = layer.head_dim;
    group.value_head_dim = layer.value_head_dim;
    group.dtype = layer.dtype;
    group.growth = layer.growth;
    group.bytes_per_token += layer.bytes_per_token;
    group.bytes_per_sequence += layer.bytes_per_sequence;
  }
  return groups;
}

bool has_states(const File* file, bool cross) {
  return file != nullptr && std::any_of(file->states.begin(), file->states.end(), [&](const State& s) { return s.cross == cross; });
}

const std::string& name_of(const File& file, const State& state) {
  return state.input >= 0 ? file.inputs[static_cast<size_t>(state.input)].name : file.outputs[static_cast<size_t>(state.output)].name;
}

void report_mismatch(Signature& signature, const char* what, int64_t graph, std::optional<int64_t> config, const char* name) {
  if (!config || *config == graph) return;
  signature.problems.push_back(fmt::format("the graph has {} {} but config.json has {} {}; using the graph", graph, what, name, *config));
}

void compare_cache(Signature& signature, const Configs& configs) {
  if (signature.cache.size() != 1 || signature.cache[0].growth == Growth::kRecurrent) return;
  const CacheGroup& cache = signature.cache[0];
  const bool encodes = signature.kind == Kind::kEncoderDecoder;
  const auto layers = encodes ? configs.number({"decoder_layers", "num_decoder_layers", "num_hidden_layers", "num_layers"})
                              : configs.number({"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  // Hybrid models have a cache only in some layers.
  const bool gaps = !cache.layers.empty() && cache.layers.back() + 1 != cache.n_layers;
  if (!gaps) report_mismatch(signature, "layers with a cache", cache.n_layers, layers, "num_hidden_layers");
  auto heads = encodes ? configs.number({"decoder_attention_heads", "num_heads", "num_attention_heads"})
                       : configs.number({"num_key_value_heads", "num_kv_heads"});
  if (configs.flag("multi_query") && !configs.flag("new_decoder_architecture")) heads = 1;  // overrides the other number
  report_mismatch(signature, "key/value heads", cache.kv_heads, heads, encodes ? "decoder_attention_heads" : "num_key_value_heads");
  auto head_dim = configs.number({"head_dim", "d_kv"});
  const auto plain = configs.number({"qk_nope_head_dim"}), rotary = configs.number({"qk_rope_head_dim"});
  if (plain && rotary) head_dim = *plain + *rotary;  // latent attention: head_dim is only the rotary part
  report_mismatch(signature, "features in a head", cache.head_dim, head_dim, "head_dim");
}

void summarize_vocab(Signature& signature, const Configs& configs, const File* decoder) {
  const File* source = decoder;
  for (const File& file : signature.files) {
    if (source == nullptr && (file.stage == Stage::kEncoder || file.stage == Stage::kEmbedding)) source = &file;
  }
  const auto configured = configs.number({"decoder_vocab_size", "vocab_size"});
  if (source != nullptr && source->vocab) signature.vocab = source->vocab;
  if (!signature.vocab) signature.vocab = configured ? configured : configs.genai_number("vocab_size");
  if (source != nullptr && source->vocab && source->output_of(Role::kLogits) != nullptr && decoder != nullptr)
    report_mismatch(signature, "logits", *source->vocab, configured, "vocab_size");
}

void summarize_positions(Signature& signature, const Configs& configs, const File* decoder) {
  signature.max_positions = configured_positions(configs);
  std::optional<int64_t> rows = decoder != nullptr ? decoder->position_rows : signature.files.front().position_rows;
  if (decoder != nullptr) {
    for (const State& state : decoder->states) {
      if (state.capacity > 0 && !state.cross && !state.window) rows = std::min(rows.value_or(state.capacity), state.capacity);
    }
  }
  if (!rows) return;
  if (signature.max_positions && *rows < *signature.max_positions) {
    signature.problems.push_back(
        fmt::format("the graph has {} positions but the config files allow {}; using the graph", *rows, *signature.max_positions));
  }
  if (!signature.max_positions || *rows < *signature.max_positions) signature.max_positions = rows;
}

void summarize_source_positions(Signature& signature, const Configs& configs) {
  const File* encoder = signature.encoder();
  if (encoder == nullptr || encoder->input_of(Role::kTokenIds) == nullptr) return;
  signature.max_source_positions = configs.number({"max_encoder_position_embeddings", "max_source_positions"});
  if (!signature.max_source_positions) signature.max_source_positions = configured_positions(configs);
  if (!encoder->position_rows) return;
  signature.max_source_positions = std::min(signature.max_source_positions.value_or(*encoder->position_rows), *encoder->position_rows);
}

}  // namespace

void complete_states(File& file, const Configs& configs) {
  for (State& state : file.states) {
    if (state.growth == Growth::kRecurrent) continue;
    if (state.feature_axis < 0) {
      file.problems.push_back(fmt::format("{}: the shape of '{}' is not declared, so its axes are unknown; export it with shapes",
                                          file.path.filename().string(), name_of(file, state)));
      continue;
    }
    if (state.n_heads == 0) {
      auto heads = configs.genai_number("num_key_value_heads");
      if (!heads)
        heads = configs.number(
            {"num_key_value_heads", "num_kv_heads", "decoder_attention_heads", "num_attention_heads", "n_head", "num_heads"});
      if (heads && *heads > 0 && *heads < (1 << 20)) state.n_heads = *heads;
    }
    if (state.head_dim == 0) {
      auto size = configs.genai_number("head_size");
      if (!size) size = configs.number({"head_dim", "d_kv"});
      const auto width = configs.number({"hidden_size", "n_embd", "d_model"});
      const auto heads = configs.number({"num_attention_heads", "n_head", "decoder_attention_heads", "num_heads"});
      if (!size && width && heads && *heads > 0) size = *width / *heads;
      if (size && *size > 0 && *size < (1 << 20)) state.head_dim = *size;
    }
    if (state.n_heads == 0 || state.head_dim == 0) {
      file.problems.push_back(fmt::format("{}: the number of heads and features of '{}' is neither in the graph nor in a config file",
                                          file.path.filename().string(), name_of(file, state)));
    }
  }
}

void summarize(Signature& signature, const Configs& configs) {
  const File* decoder = signature.later_step();
  const File* first = signature.first_step();
  if (has_states(decoder, false)) signature.cache = groups_of(*decoder, false);
  if (signature.cache.empty() && has_states(first, false)) signature.cache = groups_of(*first, false);
  for (const File* file : {decoder, first, signature.file_of(Stage::kEncoder)}) {
    if (signature.cross_cache.empty() && has_states(file, true)) signature.cross_cache = groups_of(*file, true);
  }
  signature.special = special_tokens(configs);
  summarize_vocab(signature, configs, decoder);
  summarize_positions(signature, configs, decoder);
  summarize_source_positions(signature, configs);
  compare_cache(signature, configs);
}

}  // namespace kvik::analysis
