#include <algorithm>

#include "analysis/signature.h"
#include "api/hub_cache.h"
#include "api/load.h"
#include "kvik/inspect.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

bool fits_memory(const analysis::Signature& signature) {
  try {
    api::check_memory(signature);
    return true;
  } catch (const Error&) { return false; }
}

ModelInfo model_info(const fs::path& folder, const Log& log) {
  constexpr int64_t kMaxPositions = 1 << 24;
  const analysis::Signature signature = analysis::analyze(folder, {}, log);
  const int64_t positions = std::clamp<int64_t>(signature.max_positions.value_or(0), 0, kMaxPositions);
  return {.name = folder.filename().string(),
          .folder = folder,
          .kind = std::string(kind_name(signature.kind)),
          .weights_bytes = static_cast<int64_t>(api::weights_bytes_of(signature)),
          .cache_bytes = signature.cache_bytes_per_token() * positions,
          .fits = fits_memory(signature)};
}

// Of each kind that generates, the largest that fits.
void recommend(std::vector<ModelInfo>& models) {
  for (const char* kind : {"decoder", "encoder-decoder"}) {
    ModelInfo* best = nullptr;
    for (ModelInfo& model : models) {
      if (model.kind == kind && model.fits && (best == nullptr || model.weights_bytes > best->weights_bytes)) best = &model;
    }
    if (best != nullptr) best->recommended = true;
  }
}

}  // namespace

std::vector<ModelInfo> list_models(const std::function<void(LogLevel, std::string_view message)>& log_sink) {
  const Log log(log_sink);
  std::vector<ModelInfo> models;
  const api::Environment environment = api::read_environment();
  for (const fs::path& place : environment.model_folders) {
    std::error_code unreadable;
    for (fs::directory_iterator entry(place, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
      const std::string name = entry->path().filename().string();
      const bool is_known = std::any_of(models.begin(), models.end(), [&](const ModelInfo& model) { return model.name == name; });
      std::error_code no_status;
      if (is_known || !entry->is_directory(no_status)) continue;
      try {
        models.push_back(model_info(entry->path(), log));
      } catch (const Error& e) { log.info(e.what()); }
    }
  }
  for (const api::CachedRepository& cached : api::cached_repositories(environment.hub_cache)) {
    if (cached.snapshot.empty()) continue;
    try {
      models.push_back(model_info(cached.snapshot, log));
      models.back().name = cached.name;
    } catch (const Error& e) { log.info(e.what()); }
  }
  std::sort(models.begin(), models.end(), [](const ModelInfo& a, const ModelInfo& b) { return a.name < b.name; });
  recommend(models);
  return models;
}

}  // namespace kvik
