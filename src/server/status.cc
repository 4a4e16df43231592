#include "server/status.h"

#include <fstream>

#include "base/cpu_features.h"
#include "base/memory_info.h"
#include "kvik/version.h"

namespace kvik::server {
namespace {

// As Linux on x86 writes it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string_view task_of(const ModelFacts& facts) {
  if (facts.kind == "decoder") return "text";
  if (facts.kind == "encoder") return "embedding";
  if (facts.kind == "encoder-decoder") return facts.reads_features ? "transcription" : "translation";
  return "other";
}

Json machine() {
  static const std::string processor = processor_name(), isa = describe(detect_cpu_features());
  return {{"processor", processor}, {"cores", usable_cores()}, {"isa", isa}, {"memory_bytes", available_memory_bytes()}};
}

}  // namespace

void status(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Json models = Json::array();
  for (const Registry::Status& model : service.registry.list()) {
    Json entry = {{"name", model.facts.name},
                  {"kind", model.facts.kind},
                  {"task", task_of(model.facts)},
                  {"max_positions", model.facts.max_positions},
                  {"weights_bytes", model.facts.weights_bytes},
                  {"loaded", model.loaded != nullptr}};
    if (model.loaded != nullptr) {
      entry["backend"] = model.loaded->model.backend();
      entry["device"] = model.loaded->model.device();
      entry["weights_bytes"] = model.loaded->model.weights_bytes();
    }
    models.push_back(std::move(entry));
  }
  exchange->send({{"version", kVersion}, {"machine", machine()}, {"models", std::move(models)}});
}

}  // namespace kvik::server
