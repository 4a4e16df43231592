#include "kvik/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/inventory.h"
#include "analysis/signature.h"
#include "api/load.h"
#include "backend/native/compile.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/report.h"
#include "backend/native/source_stage.h"
#include "backend/native/stages.h"
#include "backend/ort/library.h"
#include "engine/embedding_config.h"

namespace kvik {
namespace {

PortInfo port_info(const analysis::Port& port) {
  PortInfo info{.name = port.name, .dtype = std::string(dtype_name(port.dtype)), .role = std::string(role_name(port.role))};
  if (port.role == analysis::Role::kKvLength) info.means = port.means_past ? "past" : port.less_one ? "total less one" : "total";
  if (!port.has_shape) return info;
  info.shape.emplace();
  for (const onnx::Dim& dim : port.dims)
    info.shape->push_back(dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : std::string(dim.symbol));
  return info;
}

StateInfo state_info(const analysis::File& file, const analysis::State& state) {
  StateInfo info{.layer = state.layer, .growth = std::string(growth_name(state.growth)), .cross = state.cross, .capacity = state.capacity};
  if (state.input >= 0) info.past = file.inputs[static_cast<size_t>(state.input)].name;
  if (state.output >= 0) info.present = file.outputs[static_cast<size_t>(state.output)].name;
  if (state.output_dtype != state.dtype) info.present_dtype = dtype_name(state.output_dtype);
  const std::pair<const char*, int> axes[] = {{"batch", state.batch_axis},        {"heads", state.head_axis},
                                              {"positions", state.position_axis}, {"features", state.feature_axis},
                                              {"layers", state.layer_axis},       {"key_value", state.key_value_axis}};
  for (const auto& [name, axis] : axes) {
    if (axis >= 0) info.axes.emplace_back(name, axis);
  }
  return info;
}

FileInfo file_info(const analysis::Signature& signature, const analysis::File& file) {
  const analysis::Inventory inventory = analysis::take_inventory(*file.model);
  const std::filesystem::path relative = file.path.lexically_relative(signature.folder);
  FileInfo info{.role = std::string(stage_name(file.stage)),
                .path = relative.empty() || *relative.begin() == ".." ? file.path.string() : relative.string(),
                .ir_version = file.model->ir_version,
                .producer = std::string(file.model->producer_name),
                .producer_version = std::string(file.model->producer_version),
                .n_nodes = inventory.n_nodes,
                .n_functions = static_cast<int64_t>(file.model->n_functions),
                .weights_bytes = inventory.total_weight_bytes(),
                .quantizes_across_rows = file.quantizes_across_rows,
                .operators = inventory.operators,
                .operators_without_kernel = inventory.without_kernel};
  for (const auto& [domain, version] : file.model->opsets)
    info.opsets.emplace_back(domain.empty() ? "ai.onnx" : std::string(domain), version);
  for (const auto& [dtype, bytes] : inventory.weight_bytes) info.weights_bytes_by_dtype[std::string(dtype_name(dtype))] = bytes;
  info.external_files.assign(inventory.external_files.begin(), inventory.external_files.end());
  for (const analysis::Port& port : file.inputs) info.inputs.push_back(port_info(port));
  for (const analysis::Port& port : file.outputs) info.outputs.push_back(port_info(port));
  for (const analysis::State& state : file.states) info.states.push_back(state_info(file, state));
  return info;
}

CacheInfo cache_info(const analysis::CacheGroup& group) {
  return {.layers = group.layers,
          .n_layers = group.n_layers,
          .kv_heads = group.kv_heads,
          .head_dim = group.head_dim,
          .value_head_dim = group.value_head_dim,
          .dtype = std::string(dtype_name(group.dtype)),
          .growth = std::string(growth_name(group.growth)),
          .bytes_per_token = group.bytes_per_token,
          .bytes_per_sequence = group.bytes_per_sequence};
}

SpecialTokenIds special_ids(const analysis::SpecialTokens& special) {
  return {.bos = special.bos,
          .pad = special.pad,
          .unk = special.unk,
          .decoder_start = special.decoder_start,
          .forced_bos = special.forced_bos,
          .forced_eos = special.forced_eos,
          .eos = special.eos};
}

PlanInfo plan_info(const char* stage, const native::Plan& plan, const LoadOptions& options, cpu::KvFormat kv) {
  const native::WeightChoice weights = api::native_options(options).weights;
  const native::PlanReport report = native::report(plan, weights, kv);
  return {.stage = stage,
          .operations = report.operations,
          .fused = report.fused,
          .unfused = report.unfused,
          .host_steps = options.device == Device::kCpu ? std::map<std::string, int>{} : native::host_steps(plan, kv),
          .attention = report.attention,
          .weights = report.weights,
          .bytes_per_token = report.bytes_per_token,
          .kv_bytes_per_token = report.kv_bytes_per_token,
          .notes = report.notes,
          .lines = native::plan_lines(plan, weights, kv)};
}

// Throws the refusal if the native backend does not take the model.
std::vector<PlanInfo> native_plans(const analysis::Signature& signature, const LoadOptions& options) {
  const backend::NativeOptions native = api::native_options(options);
  const cpu::KvFormat kv = native::kv_format_of(signature, native.kv, native.weights);
  if (signature.first_step() == nullptr) {  // an encoder by itself
    const std::shared_ptr<const native::Plan> plan = native::make_plan(native::take(native::compile_encoder(signature)), native.no_fuse);
    return {plan_info("encoder", *plan, options, kv)};
  }
  const native::Stages stages = native::take(native::compile_stages(signature, {native.context, native.no_fuse}));
  std::vector<PlanInfo> plans;
  const auto add = [&](const char* stage, const std::shared_ptr<const native::Plan>& plan, const std::string& refused) {
    if (plan != nullptr) plans.push_back(plan_info(stage, *plan, options, kv));
    if (!refused.empty()) plans.push_back({.stage = stage, .refused = refused});
  };
  add("decoder", stages.decoder, {});
  add("encoder", stages.encoder, stages.encoder_refused);
  add("embedding", stages.embedding, stages.embedding_refused);
  return plans;
}

// The backend that load() falls back to if the native one does not take the model.
void choose_fallback(Inspection& inspection, const LoadOptions& options) {
  const api::Environment environment = api::read_environment();
  const std::filesystem::path named = options.ort_library.empty() ? environment.ort_library : options.ort_library;
  const std::filesystem::path library = backend::ort::find_library({named, environment.python_prefixes});
  std::vector<std::string> missing;
  for (const FileInfo& file : inspection.files)
    missing.insert(missing.end(), file.operators_without_kernel.begin(), file.operators_without_kernel.end());
  if (!library.empty()) {
    inspection.backend = "ort";
    inspection.backend_reason = fmt::format("ONNX Runtime runs any graph ({})", library.string());
  } else if (!missing.empty()) {
    inspection.backend = "none";
    inspection.backend_reason = fmt::format("ONNX Runtime was not found, and the reference evaluator lacks {}", fmt::join(missing, ", "));
  } else {
    inspection.backend = "reference";
    inspection.backend_reason = "ONNX Runtime was not found; the reference evaluator has every operator of the graph, but is slow";
  }
}

// An encoder that reads no text does nothing by itself, but its plan is of interest.
void describe_encoder(Inspection& inspection, const analysis::Signature& signature, const LoadOptions& options) {
  inspection.backend = "none";
  inspection.backend_reason = "the model neither generates nor embeds text";
  if (signature.kind != analysis::Kind::kEncoder) return;
  try {
    inspection.plans = native_plans(signature, options);
  } catch (const Error& e) { inspection.plans = {{.stage = "encoder", .refused = e.what()}}; }
}

void choose_backend(Inspection& inspection, const analysis::Signature& signature, const LoadOptions& options) {
  if (signature.first_step() == nullptr && !signature.only_embeds()) return describe_encoder(inspection, signature, options);
  if (options.backend == BackendChoice::kOrt || options.backend == BackendChoice::kReference) {
    inspection.backend = options.backend == BackendChoice::kOrt ? "ort" : "reference";
    inspection.backend_reason = "requested";
    return;
  }
  try {
    inspection.plans = native_plans(signature, options);
    inspection.backend = "native";
    inspection.backend_reason = "the graph compiles to a plan of row-wise ops";
    for (const PlanInfo& plan : inspection.plans) {
      if (!plan.refused.empty()) inspection.backend_reason += fmt::format("; its {} runs on another backend: {}", plan.stage, plan.refused);
    }
  } catch (const Error& e) {
    inspection.backend = "none";
    inspection.backend_reason = e.what();
    if (options.backend == BackendChoice::kNative || e.code() != Code::kUnsupported) return;
    choose_fallback(inspection, options);
    inspection.backend_reason = fmt::format("not native: {}; {}", e.what(), inspection.backend_reason);
  }
}

EmbeddingInfo embedding_info(const analysis::Signature& signature) {
  const engine::EmbeddingConfig config = engine::read_embedding_config(signature.folder);
  EmbeddingInfo info{.pooling = engine::pooling_names(config.pooling),
                     .normalize = !config.has_modules || config.normalizes(),
                     .dense = config.dense,
                     .max_tokens = config.max_tokens.value_or(0),
                     .default_prompt = config.default_prompt,
                     .problem = config.refused};
  if (config.pooling.empty() && signature.embedder()->output_of(analysis::Role::kSentenceEmbedding) != nullptr)
    info.pooling = "graph", info.normalize = false;
  if (const int64_t positions = signature.max_positions.value_or(0); positions > 0)
    info.max_tokens = info.max_tokens > 0 ? std::min(info.max_tokens, positions) : positions;
  for (const auto& [name, text] : config.prompts) info.prompts.push_back(name);
  return info;
}

}  // namespace

int64_t Inspection::weights_bytes() const {
  int64_t bytes = 0;
  for (const FileInfo& file : files) bytes += file.weights_bytes;
  return bytes;
}

Inspection inspect(const std::string& path_or_name, const LoadOptions& options) {
  const api::ModelPath model = api::find_model(path_or_name, api::read_environment());
  const analysis::Signature signature = analysis::analyze(model.path(), {options.variant}, Log(options.log));
  Inspection inspection{.kind = std::string(kind_name(signature.kind)),
                        .folder = signature.folder,
                        .can_rewind = signature.can_rewind(),
                        .vocab = signature.vocab,
                        .max_positions = signature.max_positions,
                        .special = special_ids(signature.special),
                        .problems = signature.problems};
  for (const analysis::File& file : signature.files) inspection.files.push_back(file_info(signature, file));
  for (const analysis::CacheGroup& group : signature.cache) inspection.cache.push_back(cache_info(group));
  for (const analysis::CacheGroup& group : signature.cross_cache) inspection.cross_cache.push_back(cache_info(group));
  if (signature.embedder() != nullptr) inspection.embedding = embedding_info(signature);
  choose_backend(inspection, signature, options);
  return inspection;
}

}  // namespace kvik
