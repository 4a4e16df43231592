#include "kvik/verify.h"

#include <algorithm>
#include <fmt/format.h>

#include "api/load.h"
#include "api/state.h"
#include "api/translator.h"
#include "backend/native/specialize/length_switch.h"
#include "backend/reference/reference_backend.h"
#include "engine/sequence.h"
#include "verify/decoder_laws.h"
#include "verify/dequantize.h"
#include "verify/embedder_laws.h"
#include "verify/synthetic.h"
#include "verify/translator_laws.h"

namespace kvik {
namespace {

using laws::Peer;

constexpr double kExactFormats = 1e-3;          // rounding of f32
constexpr double kHalfPrecision = 0.02;         // rounding of f16 and bf16
constexpr double kQuantizedActivations = 0.25;  // on one of the two sides
constexpr double kLargestBatchSensitivity = 0.75;

bool quantizes_activations(const onnx::Graph& graph) {
  for (const onnx::Node& node : graph.nodes) {
    if (node.op == "DynamicQuantizeLinear" || node.op == "DynamicQuantizeMatMul") return true;
    if (node.op == "MatMulNBits" && node.int_or("accuracy_level", 0) == 4) return true;
    for (const onnx::Attribute& attribute : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute.data);
      if (inner != nullptr && quantizes_activations(**inner)) return true;
    }
  }
  return false;
}

bool has_half_weights(const onnx::Graph& graph) {
  return std::any_of(graph.initializers.begin(), graph.initializers.end(),
                     [](const onnx::TensorData& weight) { return weight.dtype == DType::kF16 || weight.dtype == DType::kBF16; });
}

bool has_byte_weights(const onnx::Graph& graph) {
  return std::any_of(graph.initializers.begin(), graph.initializers.end(),
                     [](const onnx::TensorData& weight) { return weight.dims.size() > 1 && storage_bytes(weight.dtype, 2) <= 2; });
}

// States are rounded from step to step, although the steps compute in f32.
bool has_half_cache(const analysis::File& file) {
  return std::any_of(file.states.begin(), file.states.end(), [](const analysis::State& state) {
    return storage_bytes(state.dtype, 1) == 2 || storage_bytes(state.output_dtype, 1) == 2;
  });
}

bool quantizes_across_rows(const analysis::Signature& signature) {
  return std::any_of(signature.files.begin(), signature.files.end(), [](const analysis::File& file) { return file.quantizes_across_rows; });
}

bool is_quantized(const LoadOptions& load) { return load.weights == Weights::kQ8 || load.weights == Weights::kQ4; }

// How much two correct computations of the graph may differ: by the rounding of its number format and, if only one of them quantizes
// activations, by the error of that. A device multiplies rows of 16 bits unless all weights have 32.
double expected_tolerance(const analysis::Signature& signature, const LoadOptions& load, bool on_device) {
  const analysis::File& file = signature.later_step() != nullptr ? *signature.later_step() : *signature.embedder();
  const onnx::Graph& graph = *file.model->graph;
  if (is_quantized(load) || load.kv == KvStorage::kQ8 || quantizes_activations(graph)) return kQuantizedActivations;
  const bool half = load.weights == Weights::kF16 || load.kv == KvStorage::kF16;
  return half || (on_device && has_byte_weights(graph)) || has_half_weights(graph) || has_half_cache(file) ? kHalfPrecision : kExactFormats;
}

// The same model opened in other ways, whose results must agree.
class Peers {
 public:
  Peers(const Model& model, double tolerance) : model_(model), state_(*model.state()), log_(state_.options.log), tolerance_(tolerance) {}

  std::vector<Peer> open() {
    std::vector<Peer> peers;
    if (state_.traits().exact) peers = exact_peers();
    if (model_.backend() == "native" && is_quantized(state_.options)) {
      const std::shared_ptr<backend::Backend> float_rows = open_with_float_rows();
      peers.push_back(dequantized_reference(float_rows));
      peers.push_back({.law = "distance by quantized rows", .backend = float_rows, .information = true});
      peers.push_back({.law = "distance to full precision", .backend = other_backend().backend, .information = true});
    } else {
      peers.push_back(other_backend());
    }
    std::erase_if(peers, [](const Peer& peer) { return peer.backend == nullptr; });
    return peers;
  }

 private:
  // If it cannot be opened: null, and a warning with the reason.
  std::shared_ptr<backend::Backend> open_again(const LoadOptions& load) const {
    try {
      return api::open_backend(state_.signature, load, api::read_environment(), log_);
    } catch (const Error& e) { log_.warning(fmt::format("nothing to compare with: {}", e.what())); }
    return nullptr;
  }

  // A backend that guarantees equal bits has them for any number of threads and any instruction set, if all stages of the model run on it.
  std::vector<Peer> exact_peers() const {
    LoadOptions threads = state_.options, scalar = state_.options;
    threads.threads = state_.options.threads == 1 ? 2 : 1;
    scalar.isa = "scalar";
    const double tolerance = state_.traits().exact_sources ? 0 : tolerance_;
    return {{"one thread = many", open_again(threads), tolerance}, {"scalar = vectors", open_again(scalar), tolerance}};
  }

  // Null for a device: it quantizes no rows.
  std::shared_ptr<backend::Backend> open_with_float_rows() const {
    if (model_.device() != "cpu") return nullptr;
    try {
      return api::open_with_float_rows(state_.signature, state_.options, api::read_environment(), log_);
    } catch (const Error& e) { log_.warning(fmt::format("not compared without quantizing rows: {}", e.what())); }
    return nullptr;
  }

  // The same weights in the simplest arithmetic. Rows are not quantized: a value halfway between two codes may be rounded to either, and a
  // few such differences in one layer cause many in the next.
  Peer dequantized_reference(const std::shared_ptr<backend::Backend>& float_rows) const {
    try {
      const backend::NativeOptions options = api::native_options(state_.options);
      if (std::optional<analysis::Signature> signature = laws::dequantized(state_.signature, options)) {
        const int64_t switch_after = native::length_switch_of(*signature);
        return {.law = "native = reference, dequantized",
                .backend = backend::make_reference_backend(std::move(*signature), switch_after),
                .tolerance = dequantized_tolerance(),
                .row_by_row = quantizes_across_rows(state_.signature),
                .instead = float_rows};
      }
      log_.warning("not compared on dequantized weights: a quantized weight is not an initializer of the file's main graph");
    } catch (const Error& e) { log_.warning(fmt::format("not compared on dequantized weights: {}", e.what())); }
    return {};
  }

  double dequantized_tolerance() const {
    LoadOptions numbers = state_.options;
    numbers.weights = Weights::kAuto;  // these are compared, not their rounding
    if (numbers.kv == KvStorage::kAuto) numbers.kv = KvStorage::kF16;
    return expected_tolerance(state_.signature, numbers, model_.device() != "cpu");
  }

  // Some files open in a runtime that then fails to run them.
  bool runs(const std::shared_ptr<backend::Backend>& backend) const {
    if (backend == nullptr) return false;
    const backend::Traits& traits = backend->traits();
    if (traits.needs_source || traits.vocab <= 0) return true;
    try {
      return engine::Sequence(backend, 0).append(laws::synthetic_prompt(traits.vocab, 1)) == AppendStatus::kDone;
    } catch (const Error& e) { log_.warning(fmt::format("nothing to compare with: {}", e.what())); }
    return false;
  }

  Peer other_backend() const {
    LoadOptions load = state_.options;
    load.weights = Weights::kAuto, load.kv = KvStorage::kAuto, load.isa = "auto";
    // An exact backend quantizes each row by itself; a whole graph does so only if it runs one row at a time.
    const bool row_by_row = state_.traits().exact && quantizes_across_rows(state_.signature);
    const bool takes_reference = row_by_row || model_.backend() == "ort";
    for (const BackendChoice choice : {takes_reference ? BackendChoice::kReference : BackendChoice::kOrt, BackendChoice::kReference}) {
      if (choice == BackendChoice::kReference && model_.backend() == "reference") break;
      load.backend = choice;
      if (std::shared_ptr<backend::Backend> other = open_again(load); runs(other)) {
        const std::string name = fmt::format("{} = {}", model_.backend(), other->traits().name);
        return {name, std::move(other), tolerance_, row_by_row};
      }
    }
    return {};
  }

  const Model& model_;
  const Model::State& state_;
  Log log_;
  double tolerance_;
};

Tensor as_source(std::span<const TokenId> ids) {
  return Tensor::of({static_cast<int64_t>(ids.size())}, std::vector<int64_t>(ids.begin(), ids.end()));
}

// Several sources, of unequal length if they are texts.
std::vector<Tensor> sources_for(const Model& model, const VerifyOptions& options) {
  const Model::State& state = *model.state();
  const analysis::File* encoder = state.signature.encoder();
  std::vector<Tensor> sources;
  for (const Features& features : options.features) sources.push_back(api::to_tensor(features));
  if (!sources.empty()) return sources;
  for (const analysis::Role role : {analysis::Role::kAudioFeatures, analysis::Role::kPixelValues}) {
    const analysis::Port* port = encoder != nullptr ? encoder->input_of(role) : nullptr;
    if (port == nullptr) continue;
    for (int seed = 0; seed < 3; ++seed) sources.push_back(laws::synthetic_features(*port, state.signature.folder, seed));
    return sources;
  }
  std::vector<TokenId> ids = options.ids;
  if (ids.size() < 2) ids = laws::synthetic_prompt(model.vocab_size(), state.traits().max_source_positions);
  const std::vector<TokenId> reversed(ids.rbegin(), ids.rend());
  return {as_source(ids), as_source(std::span(ids).first(std::max<size_t>(1, ids.size() / 3))), as_source(reversed)};
}

// At least twice the batch sensitivity of the file itself, within a limit that a broken mask would still exceed.
double tolerance_for_batches(const Model& model, const VerifyOptions& options, std::span<const TokenId> prompt, double tolerance) {
  const Model::State& state = *model.state();
  const bool depends = tolerance > 0 && options.tolerance == 0 && quantizes_activations(*state.signature.later_step()->model->graph);
  if (!depends) return tolerance;
  return std::clamp(2 * laws::batch_sensitivity(state.decoder->shared_backend(), prompt), tolerance, kLargestBatchSensitivity);
}

std::string batch_note(const Model& model) {
  if (!quantizes_across_rows(model.state()->signature)) return {};
  return " (the file quantizes activations with one scale per run, so its logits depend on the batch: rows are compared one by one)";
}

void verify_decoder(const Model& model, const VerifyOptions& options, std::vector<Peer> peers, Verification& result) {
  laws::DecoderLaws decoder;
  decoder.context = model.state()->options.context;
  decoder.prompt = options.ids;
  if (decoder.prompt.empty()) decoder.prompt = laws::synthetic_prompt(model.vocab_size(), model.max_positions());
  decoder.tolerance = result.tolerance = tolerance_for_batches(model, options, decoder.prompt, result.tolerance);
  decoder.peers = std::move(peers);
  if (options.on_start) options.on_start(fmt::format("{} tokens{}", decoder.prompt.size(), batch_note(model)), result.tolerance);
  result.laws = laws::verify_decoder(model.state()->decoder->shared_backend(), decoder, {options.on_law, options.cancelled});
}

void verify_translator(const Model& model, const VerifyOptions& options, std::vector<Peer> peers, Verification& result) {
  const Model::State& state = *model.state();
  const int limit = model.max_positions() > 0 ? model.max_positions() : 24;
  laws::TranslatorLaws translator;
  translator.sources = sources_for(model, options);
  translator.start = {state.config.decoder_start.value_or(0)};
  translator.target = laws::synthetic_prompt(model.vocab_size(), limit > 2 ? std::min(8, limit - 1) : 8);
  translator.sampler = std::make_shared<sample::Sampler>(
      state.config.sampling,
      sample::TokenRules{static_cast<size_t>(model.vocab_size()), state.config.eos, state.traits().unsupported_tokens});
  translator.beams = {.num_beams = 4, .max_length = static_cast<size_t>(std::min(24, limit)), .eos_token_id = state.config.eos};
  translator.tolerance = result.tolerance;
  translator.peers = std::move(peers);
  const std::string subject =
      fmt::format("{} sources, {} tokens of target{}", translator.sources.size(), translator.target.size(), batch_note(model));
  if (options.on_start) options.on_start(subject, result.tolerance);
  result.laws = laws::verify_translator(state.decoder->shared_backend(), translator, {options.on_law, options.cancelled});
}

// Hidden states, or the graph's pooled vectors if it has no hidden states.
void verify_embeddings(const Model& model, const VerifyOptions& options, double expected, Verification& result) {
  const Model::State& state = *model.state();
  const Log log(state.options.log);
  const bool pooled = state.signature.embedder()->output_of(analysis::Role::kHiddenStates) == nullptr;
  const std::shared_ptr<backend::Embedder> embedder = state.embedder(pooled);
  const backend::EmbedderTraits& traits = embedder->traits();
  laws::EmbedderLaws laws;
  std::vector<TokenId> ids = options.ids.empty() ? laws::synthetic_prompt(std::max(1, traits.vocab), traits.max_positions) : options.ids;
  std::erase_if(ids, [&](TokenId id) { return std::ranges::find(traits.unsupported_tokens, id) != traits.unsupported_tokens.end(); });
  if (ids.empty()) throw Error(Code::kBadArgument, "the ids contain no token that the model supports, so embeddings cannot be verified");
  laws.texts = {ids, {ids.begin(), ids.begin() + static_cast<ptrdiff_t>((ids.size() + 2) / 3)}, {ids.rbegin(), ids.rend()}, {ids.back()}};
  laws.tolerance = traits.exact ? 0 : expected;
  const auto add = [&](std::string law, const LoadOptions& load, double tolerance) {
    try {
      std::shared_ptr<backend::Embedder> other = api::open_embedder(state.signature, pooled, load, api::read_environment(), log);
      if (law.empty()) law = fmt::format("{} = {}", traits.name, other->traits().name);
      laws.peers.push_back({std::move(law), std::move(other), tolerance});
      return true;
    } catch (const Error& e) { log.warning(fmt::format("nothing to compare with: {}", e.what())); }
    return false;
  };
  LoadOptions threads = state.options, scalar = state.options, other = state.options;
  threads.threads = state.options.threads == 1 ? 2 : 1;
  scalar.isa = "scalar";
  other.weights = Weights::kAuto, other.kv = KvStorage::kAuto, other.isa = "auto";
  if (options.compare && traits.exact) {
    add("one thread = many", threads, 0);
    add("scalar = vectors", scalar, 0);
  }
  for (const BackendChoice choice : {BackendChoice::kOrt, BackendChoice::kReference}) {
    other.backend = choice;
    if (!options.compare || traits.name == (choice == BackendChoice::kOrt ? "ort" : "reference")) continue;
    const bool quantized = traits.exact && is_quantized(state.options);
    if (!add(quantized ? "distance to full precision" : "", other, expected)) continue;
    laws.peers.back().information = quantized;
    break;
  }
  if (options.on_start && !model.can_generate())
    options.on_start(fmt::format("{} texts of up to {} tokens", laws.texts.size(), ids.size()), laws.tolerance);
  for (Law& law : laws::verify_embedder(*embedder, laws, {options.on_law, options.cancelled})) result.laws.push_back(std::move(law));
}

}  // namespace

bool Verification::holds() const {
  return std::all_of(laws.begin(), laws.end(), [](const Law& law) { return law.holds; });
}

Verification verify(const Model& model, const VerifyOptions& options) {
  const Model::State& state = *model.state();
  const double expected =
      options.tolerance > 0 ? options.tolerance : expected_tolerance(state.signature, state.options, state.traits().device != "cpu");
  Verification result{.tolerance = state.traits().exact ? 0 : expected};
  if (model.can_generate()) {
    std::vector<Peer> peers;
    if (options.compare) peers = Peers(model, expected).open();
    (state.traits().needs_source ? verify_translator : verify_decoder)(model, options, std::move(peers), result);
  }
  if (model.can_embed()) verify_embeddings(model, options, expected, result);
  if (options.cancelled && options.cancelled()) result.finish = Finish::kCancelled;
  return result;
}

}  // namespace kvik
