#include <fmt/format.h>

#include "kvik/version.h"
#include "server/chat/tool_format.h"
#include "server/ollama/ollama.h"

namespace kvik::server::ollama {
namespace {

// "7.0M", as Ollama writes it.
std::string shown_count(int64_t n) {
  if (n == 0) return "unknown";
  return n >= 1'000'000'000 ? fmt::format("{:.1f}B", static_cast<double>(n) / 1e9) : fmt::format("{:.1f}M", static_cast<double>(n) / 1e6);
}

std::string upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

Json details_of(const ModelFacts& facts) {
  return {{"parent_model", ""},
          {"format", "onnx"},
          {"family", facts.kind},
          {"families", Json::array({facts.kind})},
          {"parameter_size", shown_count(facts.n_parameters)},
          {"quantization_level", upper_case(facts.weights_dtype)}};
}

Json listed(const ModelFacts& facts) {
  const auto modified = std::chrono::system_clock::from_time_t(static_cast<time_t>(facts.modified));
  return {{"name", facts.name},       {"model", facts.name},    {"modified_at", timestamp(modified)},
          {"size", facts.file_bytes}, {"digest", facts.digest}, {"details", details_of(facts)}};
}

Json capabilities_of(const LoadedModel& model) {
  if (model.facts.kind == "encoder") return Json::array({"embedding"});
  Json capabilities = Json::array({"completion"});
  if (ToolFormat::derive(model.chat_template)) capabilities.push_back("tools");
  return capabilities;
}

// Not the template itself, which is no Go template. Some clients look for the word "tools" in it.
std::string template_of(const LoadedModel& model) {
  if (!model.has_chat_template()) return "{{ .Prompt }}";
  return ToolFormat::derive(model.chat_template) ? "chat template of the model, with tools" : "chat template of the model";
}

}  // namespace

void tags(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Json models = Json::array();
  for (const Registry::Status& model : service.registry.list()) models.push_back(listed(model.facts));
  exchange->send({{"models", std::move(models)}});
}

void ps(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto for_good = std::chrono::system_clock::now() + std::chrono::hours(24 * 365 * 100);
  Json models = Json::array();
  for (const Registry::Status& model : service.registry.list()) {
    if (model.loaded == nullptr) continue;
    Json entry = listed(model.facts);
    entry["size"] = model.loaded->model.weights_bytes() + model.loaded->model.cache_use().allocated_bytes;
    entry["size_vram"] = 0;
    entry["context_length"] = model.loaded->model.max_positions();
    entry["expires_at"] = timestamp(model.unload_at.value_or(for_good));
    models.push_back(std::move(entry));
  }
  exchange->send({{"models", std::move(models)}});
}

void version(Service&, const std::shared_ptr<Exchange>& exchange) { exchange->send({{"version", kVersion}}); }

void show(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  const std::string name = body.text("model").value_or(body.text("name").value_or(""));
  if (name.empty()) body.fail("model", "a string");
  service.with_model(exchange, name, [exchange](const Registry::Handle& model) {
    const ModelFacts& facts = model->facts;
    const auto modified = std::chrono::system_clock::from_time_t(static_cast<time_t>(facts.modified));
    exchange->send({{"modelfile", fmt::format("FROM {}\n", facts.name)},
                    {"parameters", ""},
                    {"template", template_of(*model)},
                    {"modified_at", timestamp(modified)},
                    {"details", details_of(facts)},
                    {"model_info",
                     {{"general.architecture", facts.kind},
                      {"general.parameter_count", facts.n_parameters},
                      {"kvik.backend", model->model.backend()},
                      {facts.kind + ".context_length", model->model.max_positions()},
                      {facts.kind + ".vocab_size", model->model.vocab_size()}}},
                    {"capabilities", capabilities_of(*model)}});
  });
}

}  // namespace kvik::server::ollama
