#include <algorithm>
#include <fmt/format.h>

#include "analysis/signature.h"
#include "api/load.h"
#include "base/escape.h"
#include "cli/command.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "kvik/error.h"

namespace kvik::cli {
namespace {

namespace fs = std::filesystem;

// One folder on the search path that holds a model.
struct Listed {
  std::string name;
  fs::path folder;
  analysis::Signature signature;
  int64_t weights_bytes = 0;
  int64_t cache_bytes = 0;  // of one sequence as long as the model allows
  bool fits = false;        // into the memory that is free
  bool advised = false;
};

Listed describe(const fs::path& folder, const Log& log) {
  Listed listed{folder.filename().string(), folder, analysis::analyze(folder, {}, log)};
  listed.weights_bytes = static_cast<int64_t>(api::weights_bytes_of(listed.signature));
  constexpr int64_t kMostPositions = 1 << 24;
  listed.cache_bytes =
      listed.signature.cache_bytes_per_token() * std::clamp<int64_t>(listed.signature.max_positions.value_or(0), 0, kMostPositions);
  try {
    api::check_memory(listed.signature);
    listed.fits = true;
  } catch (const Error&) {  // says no more than that it does not
  }
  return listed;
}

// The first folder on the path that has a name is the one that the name means.
std::vector<Listed> list_models(const Terminal& terminal) {
  std::vector<Listed> models;
  for (const fs::path& place : terminal.environment.model_folders) {
    std::error_code unreadable;
    for (fs::directory_iterator entry(place, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
      const std::string name = entry->path().filename().string();
      if (!entry->is_directory() || std::any_of(models.begin(), models.end(), [&](const Listed& m) { return m.name == name; })) continue;
      try {
        models.push_back(describe(entry->path(), terminal.log()));
      } catch (const Error& e) { terminal.log().info(e.what()); }
    }
  }
  std::sort(models.begin(), models.end(), [](const Listed& a, const Listed& b) { return a.name < b.name; });
  return models;
}

// Of each kind the largest that fits: more weights know more.
void advise(std::vector<Listed>& models) {
  for (const analysis::Kind kind : {analysis::Kind::kDecoder, analysis::Kind::kEncoderDecoder}) {
    Listed* best = nullptr;
    for (Listed& model : models) {
      if (model.signature.kind == kind && model.fits && (best == nullptr || model.weights_bytes > best->weights_bytes)) best = &model;
    }
    if (best != nullptr) best->advised = true;
  }
}

Json models_json(const std::vector<Listed>& models) {
  Json list = Json::array();
  for (const Listed& model : models) {
    list.push_back({{"name", model.name},
                    {"path", model.folder.string()},
                    {"kind", analysis::kind_name(model.signature.kind)},
                    {"weights_bytes", model.weights_bytes},
                    {"cache_bytes", model.cache_bytes},
                    {"memory_bytes", model.weights_bytes + model.cache_bytes},
                    {"fits", model.fits},
                    {"advised", model.advised}});
  }
  return list;
}

std::string models_table(const std::vector<Listed>& models) {
  size_t width = 4;
  for (const Listed& model : models) width = std::max(width, escape_controls(model.name).size());
  std::string text = fmt::format("{:<{}}  {:<16}{:<12}{:<12}\n", "name", width, "kind", "weights", "memory");
  for (const Listed& model : models) {
    const std::string note = !model.fits ? "does not fit into the memory that is free" : model.advised ? "advised" : "";
    text += fmt::format("{:<{}}  {:<16}{:<12}{:<12}{}\n", escape_controls(model.name), width, analysis::kind_name(model.signature.kind),
                        size_in_words(model.weights_bytes), size_in_words(model.weights_bytes + model.cache_bytes), note);
  }
  return text;
}

int models(const Terminal& terminal) {
  std::vector<Listed> found = list_models(terminal);
  advise(found);
  if (terminal.json) {
    print_result("{}\n", models_json(found).dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (!found.empty()) {
    print_text(models_table(found));
  }
  if (found.empty()) terminal.log().warning("no model was found on the search path; set KVIK_MODELS to the folder that holds your models");
  return 0;
}

}  // namespace

void add_models(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("models", "List the models on the search path");
  add_common_options(*command, commands.terminal);
  command->callback([commands] { commands.run = [=] { return models(commands.terminal); }; });
}

}  // namespace kvik::cli
