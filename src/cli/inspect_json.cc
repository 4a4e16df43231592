#include "cli/inspect.h"

namespace kvik::cli {
namespace {

using namespace analysis;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json shape_json(const Port& port) {
  if (!port.has_shape) return nullptr;
  Json shape = Json::array();
  for (const onnx::Dim& dim : port.dims) {
    if (dim.value >= 0) {
      shape.push_back(dim.value);
    } else {
      shape.push_back(dim.symbol.empty() ? std::string("?") : std::string(dim.symbol));
    }
  }
  return shape;
}

void add_ports(const std::string& file, const std::vector<Port>& ports, Json& list) {
  for (const Port& port : ports) {
    list.push_back({{"file", file},
                    {"name", port.name},
                    {"dtype", dtype_name(port.dtype)},
                    {"shape", shape_json(port)},
                    {"role", role_name(port.role)}});
    if (port.role != Role::kKvLength) continue;
    list.back()["means"] = port.means_past ? "past" : port.less_one ? "total less one" : "total";
  }
}

Json group_json(const CacheGroup& group) {
  Json json = {{"layers", group.n_layers},         {"kv_heads", group.kv_heads},          {"head_dim", group.head_dim},
               {"dtype", dtype_name(group.dtype)}, {"growth", growth_name(group.growth)}, {"bytes_per_token", group.bytes_per_token},
               {"layer_numbers", group.layers}};
  if (group.value_head_dim != group.head_dim) json["value_head_dim"] = group.value_head_dim;
  if (group.growth == Growth::kRecurrent) json["bytes_per_sequence"] = group.bytes_per_sequence;
  return json;
}

// One object where all layers are alike, a list where they differ, null without a cache.
Json cache_json(const std::vector<CacheGroup>& groups) {
  if (groups.empty()) return nullptr;
  if (groups.size() == 1) return group_json(groups.front());
  Json list = Json::array();
  for (const CacheGroup& group : groups) list.push_back(group_json(group));
  return list;
}

Json axes_json(const State& state) {
  Json axes = Json::object();
  const auto add = [&](const char* name, int axis) {
    if (axis >= 0) axes[name] = axis;
  };
  add("batch", state.batch_axis);
  add("heads", state.head_axis);
  add("positions", state.position_axis);
  add("features", state.feature_axis);
  add("layers", state.layer_axis);
  add("key_value", state.key_value_axis);
  return axes;
}

void add_states(const std::string& path, const File& file, Json& list) {
  for (const State& state : file.states) {
    Json json = {{"file", path}};
    json["past"] = state.input < 0 ? Json(nullptr) : Json(file.inputs[static_cast<size_t>(state.input)].name);
    json["present"] = state.output < 0 ? Json(nullptr) : Json(file.outputs[static_cast<size_t>(state.output)].name);
    json["layer"] = state.layer;
    json["growth"] = growth_name(state.growth);
    json["cross"] = state.cross;
    json["axes"] = axes_json(state);
    if (state.capacity > 0) json["capacity"] = state.capacity;
    if (state.output_dtype != state.dtype) json["present_dtype"] = dtype_name(state.output_dtype);
    list.push_back(std::move(json));
  }
}

Json weights_json(const Inspection& inspection) {
  Inventory all;
  for (const Inventory& inventory : inspection.inventories) all.add(inventory);
  Json dtypes = Json::object();
  for (const auto& [dtype, bytes] : all.weight_bytes) dtypes[std::string(dtype_name(dtype))] = bytes;
  std::map<std::string, int64_t> kept;
  for (const StagePlan& plan : inspection.plans) {
    for (const auto& [format, bytes] : plan.report.weights) kept[format] += bytes;
  }
  return {{"bytes", all.total_weight_bytes()}, {"dtypes", dtypes}, {"external_files", all.external_files}, {"kept_as", kept}};
}

Json file_json(const std::string& path, const File& file, const Inventory& inventory) {
  Json opsets = Json::object();
  for (const auto& [domain, version] : file.model->opsets) opsets[domain.empty() ? "ai.onnx" : std::string(domain)] = version;
  return {{"role", stage_name(file.stage)},
          {"path", path},
          {"ir", file.model->ir_version},
          {"opset", opsets},
          {"producer", file.model->producer_name},
          {"producer_version", file.model->producer_version},
          {"nodes", inventory.n_nodes},
          {"functions", file.model->n_functions},
          {"weights_bytes", inventory.total_weight_bytes()},
          {"quantizes_across_rows", file.quantizes_across_rows},
          {"operators_without_kernel", inventory.without_kernel}};
}

Json special_json(const SpecialTokens& special) {
  return {{"bos", or_null(special.bos)},
          {"eos", special.eos},
          {"pad", or_null(special.pad)},
          {"unk", or_null(special.unk)},
          {"decoder_start", or_null(special.decoder_start)},
          {"forced_bos", or_null(special.forced_bos)},
          {"forced_eos", or_null(special.forced_eos)}};
}

Json stage_json(const StagePlan& plan) {
  if (!plan.refused.empty()) return {{"stage", plan.stage}, {"refused", plan.refused}};
  const native::PlanReport& report = plan.report;
  return {{"stage", plan.stage},
          {"operations", report.operations},
          {"fused", report.fused},
          {"unfused", report.unfused},
          {"attention", report.attention},
          {"weights", report.weights},
          {"bytes_per_token", report.bytes_per_token},
          {"kv_bytes_per_token", report.kv_bytes_per_token},
          {"notes", report.notes}};
}

// Sums over all stages, then each by itself.
Json plan_json(const Inspection& inspection) {
  std::map<std::string, int> operations, fused, unfused;
  Json stages = Json::array();
  const auto add = [](std::map<std::string, int>& sums, const std::map<std::string, int>& counts) {
    for (const auto& [name, count] : counts) sums[name] += count;
  };
  for (const StagePlan& plan : inspection.plans) {
    add(operations, plan.report.operations);
    add(fused, plan.report.fused);
    add(unfused, plan.report.unfused);
    stages.push_back(stage_json(plan));
  }
  if (inspection.plans.empty()) {
    Inventory all;
    for (const Inventory& inventory : inspection.inventories) all.add(inventory);
    return {{"fused", Json::object()}, {"unfused", all.operators}};
  }
  return {{"operations", operations},
          {"fused", fused},
          {"unfused", unfused},
          {"attention", inspection.plans.front().report.attention},
          {"bytes_per_token", inspection.plans.front().report.bytes_per_token},
          {"stages", stages}};
}

}  // namespace

Json inspection_json(const Inspection& inspection) {
  const Signature& signature = inspection.signature;
  Json files = Json::array(), inputs = Json::array(), outputs = Json::array(), states = Json::array();
  for (size_t i = 0; i < signature.files.size(); ++i) {
    const std::string path = path_in_folder(signature, signature.files[i]);
    files.push_back(file_json(path, signature.files[i], inspection.inventories[i]));
    add_ports(path, signature.files[i].inputs, inputs);
    add_ports(path, signature.files[i].outputs, outputs);
    add_states(path, signature.files[i], states);
  }
  return {{"kind", kind_name(signature.kind)},
          {"folder", signature.folder.string()},
          {"files", files},
          {"inputs", inputs},
          {"outputs", outputs},
          {"states", states},
          {"cache", cache_json(signature.cache)},
          {"cross_cache", cache_json(signature.cross_cache)},
          {"can_rewind", signature.can_rewind()},
          {"vocab", or_null(signature.vocab)},
          {"max_positions", or_null(signature.max_positions)},
          {"special", special_json(signature.special)},
          {"backend", {{"chosen", inspection.backend.chosen}, {"why", inspection.backend.why}}},
          {"plan", plan_json(inspection)},
          {"weights", weights_json(inspection)},
          {"problems", signature.problems}};
}

}  // namespace kvik::cli
