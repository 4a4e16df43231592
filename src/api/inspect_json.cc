#include <set>

#include "base/json.h"
#include "kvik/inspect.h"

namespace kvik {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Numbers where sizes are known, names where they are not.
Json shape_json(const PortInfo& port) {
  if (!port.shape) return nullptr;
  Json shape = Json::array();
  for (const std::string& dim : *port.shape) {
    const bool is_number = !dim.empty() && dim.size() <= 18 && dim.find_first_not_of("0123456789") == std::string::npos;
    shape.push_back(is_number ? Json(std::stoll(dim)) : Json(dim));
  }
  return shape;
}

void add_ports(const std::string& file, const std::vector<PortInfo>& ports, Json& list) {
  for (const PortInfo& port : ports) {
    list.push_back({{"file", file}, {"name", port.name}, {"dtype", port.dtype}, {"shape", shape_json(port)}, {"role", port.role}});
    if (!port.means.empty()) list.back()["means"] = port.means;
  }
}

Json cache_group_json(const CacheInfo& group) {
  Json json = {{"layers", group.n_layers},     {"kv_heads", group.kv_heads}, {"head_dim", group.head_dim},
               {"dtype", group.dtype},         {"growth", group.growth},     {"bytes_per_token", group.bytes_per_token},
               {"layer_numbers", group.layers}};
  if (group.value_head_dim != group.head_dim) json["value_head_dim"] = group.value_head_dim;
  if (group.growth == "recurrent") json["bytes_per_sequence"] = group.bytes_per_sequence;
  return json;
}

// One object if all layers are alike, a list if they differ, null without a cache.
Json cache_json(const std::vector<CacheInfo>& groups) {
  if (groups.empty()) return nullptr;
  if (groups.size() == 1) return cache_group_json(groups.front());
  Json list = Json::array();
  for (const CacheInfo& group : groups) list.push_back(cache_group_json(group));
  return list;
}

void add_states(const FileInfo& file, Json& list) {
  for (const StateInfo& state : file.states) {
    Json axes = Json::object();
    for (const auto& [name, axis] : state.axes) axes[name] = axis;
    Json json = {{"file", file.path},    {"past", or_null(state.past)}, {"present", or_null(state.present)},
                 {"layer", state.layer}, {"growth", state.growth},      {"cross", state.cross},
                 {"axes", axes}};
    if (state.capacity > 0) json["capacity"] = state.capacity;
    if (!state.present_dtype.empty()) json["present_dtype"] = state.present_dtype;
    list.push_back(std::move(json));
  }
}

Json weights_json(const Inspection& inspection) {
  std::map<std::string, int64_t> dtypes, kept;
  std::set<std::string> external_files;
  for (const FileInfo& file : inspection.files) {
    for (const auto& [dtype, bytes] : file.weights_bytes_by_dtype) dtypes[dtype] += bytes;
    external_files.insert(file.external_files.begin(), file.external_files.end());
  }
  for (const PlanInfo& plan : inspection.plans) {
    for (const auto& [format, bytes] : plan.weights) kept[format] += bytes;
  }
  return {{"bytes", inspection.weights_bytes()}, {"dtypes", dtypes}, {"external_files", external_files}, {"kept_as", kept}};
}

Json file_json(const FileInfo& file) {
  Json opsets = Json::object();
  for (const auto& [domain, version] : file.opsets) opsets[domain] = version;
  return {{"role", file.role},
          {"path", file.path},
          {"ir", file.ir_version},
          {"opset", opsets},
          {"producer", file.producer},
          {"producer_version", file.producer_version},
          {"nodes", file.n_nodes},
          {"functions", file.n_functions},
          {"weights_bytes", file.weights_bytes},
          {"quantizes_across_rows", file.quantizes_across_rows},
          {"operators_without_kernel", file.operators_without_kernel}};
}

Json special_json(const SpecialTokenIds& special) {
  return {{"bos", or_null(special.bos)},
          {"eos", special.eos},
          {"pad", or_null(special.pad)},
          {"unk", or_null(special.unk)},
          {"decoder_start", or_null(special.decoder_start)},
          {"forced_bos", or_null(special.forced_bos)},
          {"forced_eos", or_null(special.forced_eos)}};
}

Json stage_json(const PlanInfo& plan) {
  if (!plan.refused.empty()) return {{"stage", plan.stage}, {"refused", plan.refused}};
  return {{"stage", plan.stage},     {"operations", plan.operations},           {"fused", plan.fused},
          {"unfused", plan.unfused}, {"host_steps", plan.host_steps},           {"attention", plan.attention},
          {"weights", plan.weights}, {"bytes_per_token", plan.bytes_per_token}, {"kv_bytes_per_token", plan.kv_bytes_per_token},
          {"notes", plan.notes}};
}

template <class Count>
void add_counts(std::map<std::string, Count>& sums, const std::map<std::string, Count>& counts) {
  for (const auto& [name, count] : counts) sums[name] += count;
}

Json embedding_json(const std::optional<EmbeddingInfo>& embedding) {
  if (!embedding) return nullptr;
  const auto or_no = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"pooling", or_no(embedding->pooling)}, {"normalize", embedding->normalize}, {"dense", embedding->dense},
          {"max_tokens", embedding->max_tokens},  {"prompts", embedding->prompts},     {"default_prompt", or_no(embedding->default_prompt)},
          {"problem", or_no(embedding->problem)}};
}

// Sums over all stages, then each stage.
Json plan_json(const Inspection& inspection) {
  if (inspection.plans.empty()) {
    std::map<std::string, int64_t> operators;
    for (const FileInfo& file : inspection.files) add_counts(operators, file.operators);
    return {{"fused", Json::object()}, {"unfused", operators}};
  }
  std::map<std::string, int> operations, fused, unfused;
  Json stages = Json::array();
  for (const PlanInfo& plan : inspection.plans) {
    add_counts(operations, plan.operations);
    add_counts(fused, plan.fused);
    add_counts(unfused, plan.unfused);
    stages.push_back(stage_json(plan));
  }
  return {{"operations", operations},
          {"fused", fused},
          {"unfused", unfused},
          {"attention", inspection.plans.front().attention},
          {"bytes_per_token", inspection.plans.front().bytes_per_token},
          {"stages", stages}};
}

}  // namespace

std::string to_json(const Inspection& inspection) {
  Json files = Json::array(), inputs = Json::array(), outputs = Json::array(), states = Json::array();
  for (const FileInfo& file : inspection.files) {
    files.push_back(file_json(file));
    add_ports(file.path, file.inputs, inputs);
    add_ports(file.path, file.outputs, outputs);
    add_states(file, states);
  }
  const Json json = {{"kind", inspection.kind},
                     {"folder", inspection.folder.string()},
                     {"files", files},
                     {"inputs", inputs},
                     {"outputs", outputs},
                     {"states", states},
                     {"cache", cache_json(inspection.cache)},
                     {"cross_cache", cache_json(inspection.cross_cache)},
                     {"can_rewind", inspection.can_rewind},
                     {"vocab", or_null(inspection.vocab)},
                     {"max_positions", or_null(inspection.max_positions)},
                     {"special", special_json(inspection.special)},
                     {"backend", {{"chosen", inspection.backend}, {"why", inspection.backend_reason}}},
                     {"plan", plan_json(inspection)},
                     {"weights", weights_json(inspection)},
                     {"embedding", embedding_json(inspection.embedding)},
                     {"problems", inspection.problems}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvik
