#include "server/service/model_facts.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <map>

#include "base/hash.h"
#include "kvik/inspect.h"

namespace kvik::server {
namespace {

namespace fs = std::filesystem;

int64_t bytes_per_parameter(std::string_view dtype) {
  if (dtype == "f32") return 4;
  if (dtype == "f16" || dtype == "bf16") return 2;
  return dtype == "i8" ? 1 : 0;
}

void count_parameters(const Inspection& inspection, ModelFacts& facts) {
  std::map<std::string, int64_t> bytes;
  for (const FileInfo& file : inspection.files) {
    for (const auto& [dtype, n] : file.weights_bytes_by_dtype) bytes[dtype] += n;
  }
  int64_t most = 0;
  for (const auto& [dtype, n] : bytes) {
    if (n > most) most = n, facts.weights_dtype = dtype;
    if (const int64_t each = bytes_per_parameter(dtype)) facts.n_parameters += n / each;
  }
  if (bytes_per_parameter(facts.weights_dtype) == 0) facts.n_parameters = 0;
}

}  // namespace

std::string model_name(const std::string& model) {
  const fs::path path = fs::path(model).lexically_normal();
  std::error_code fault;
  if (!fs::exists(path, fault)) return model;
  const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
  return last.extension() == ".onnx" ? last.stem().string() : last.string();
}

ModelFacts read_facts(const std::string& model, const LoadOptions& load) {
  const Inspection inspection = inspect(model, load);
  ModelFacts facts{.name = model_name(model), .path = model, .kind = inspection.kind, .weights_bytes = inspection.weights_bytes()};
  facts.max_positions = inspection.max_positions.value_or(0);
  count_parameters(inspection, facts);
  std::string identity = facts.name;
  for (const FileInfo& file : inspection.files) {
    std::error_code fault;
    const fs::path path = inspection.folder / file.path;
    facts.file_bytes += static_cast<int64_t>(fs::file_size(path, fault));
    const auto modified = std::chrono::file_clock::to_sys(fs::last_write_time(path, fault));
    facts.modified =
        std::max(facts.modified, int64_t{std::chrono::duration_cast<std::chrono::seconds>(modified.time_since_epoch()).count()});
    identity += fmt::format("|{} {} {}", file.path, file.weights_bytes, file.n_nodes);
    for (const PortInfo& port : file.inputs) facts.reads_features |= port.role == "audio_features";
  }
  Hash hash;
  hash.add(identity);
  facts.digest = hash.hex();
  return facts;
}

}  // namespace kvik::server
