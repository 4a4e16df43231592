#include <algorithm>
#include <fmt/format.h>

#include "base/escape.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/inspect.h"
#include "cli/network.h"
#include "cli/output.h"
#include "kvik/compile_cache.h"

namespace kvik::cli {
namespace {

Json models_json(const std::vector<ModelInfo>& models) {
  Json list = Json::array();
  for (const ModelInfo& model : models) {
    list.push_back({{"name", model.name},
                    {"path", model.folder.string()},
                    {"kind", model.kind},
                    {"weights_bytes", model.weights_bytes},
                    {"cache_bytes", model.cache_bytes},
                    {"memory_bytes", model.weights_bytes + model.cache_bytes},
                    {"fits", model.fits},
                    {"advised", model.recommended}});
  }
  return list;
}

std::string models_table(const std::vector<ModelInfo>& models) {
  size_t width = 4;
  for (const ModelInfo& model : models) width = std::max(width, escape_controls(model.name).size());
  std::string text = fmt::format("{:<{}}  {:<16}{:<12}{:<12}\n", "name", width, "kind", "weights", "memory");
  for (const ModelInfo& model : models) {
    const std::string note = !model.fits ? "does not fit into free memory" : model.recommended ? "recommended" : "";
    text += fmt::format("{:<{}}  {:<16}{:<12}{:<12}{}\n", escape_controls(model.name), width, model.kind, size_text(model.weights_bytes),
                        size_text(model.weights_bytes + model.cache_bytes), note);
  }
  return text;
}

uint64_t total_bytes(const std::vector<CompiledFile>& files) {
  uint64_t bytes = 0;
  for (const CompiledFile& file : files) bytes += file.size_bytes;
  return bytes;
}

std::string cache_line(const CompileCache& cache, const std::vector<CompiledFile>& files) {
  return fmt::format("compile cache: {} file{}, {} of at most {} in {}\n", files.size(), files.size() == 1 ? "" : "s",
                     size_text(static_cast<int64_t>(total_bytes(files))), size_text(static_cast<int64_t>(cache.max_bytes)),
                     escape_controls(cache.folder.string()));
}

int print_models(const Terminal& terminal) {
  const Log log = terminal.log();
  const std::vector<ModelInfo> models = list_models([&](LogLevel level, std::string_view sentence) { log.log(level, sentence); });
  if (terminal.json) {
    print_result("{}\n", models_json(models).dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (!models.empty()) {
    const CompileCache cache = default_compile_cache();
    const std::vector<CompiledFile> files = list_compile_cache(cache);
    print_text(models_table(models) + (files.empty() ? "" : "\n" + cache_line(cache, files)));
  }
  if (models.empty())
    log.warning(
        "no model was found on the search path or in the hub cache; set KVIK_MODELS to the folder that contains your models, or download "
        "one with kvik pull");
  return 0;
}

Json file_json(const CompiledFile& file) {
  return {{"path", file.path.string()}, {"model", file.model}, {"bytes", file.size_bytes}, {"unused_s", file.unused_s}};
}

std::string unused_text(int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s ago", seconds);
  if (seconds < 7200) return fmt::format("{} min ago", seconds / 60);
  return seconds < 172800 ? fmt::format("{} h ago", seconds / 3600) : fmt::format("{} days ago", seconds / 86400);
}

int print_cache(const Terminal& terminal) {
  const CompileCache cache = default_compile_cache();
  const std::vector<CompiledFile> files = list_compile_cache(cache);
  if (terminal.json) {
    Json list = Json::array();
    for (const CompiledFile& file : files) list.push_back(file_json(file));
    const Json all = {
        {"folder", cache.folder.string()}, {"bytes", total_bytes(files)}, {"max_bytes", cache.max_bytes}, {"files", std::move(list)}};
    print_result("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  std::string text = cache_line(cache, files);
  for (const CompiledFile& file : files)
    text += fmt::format("{:<12}{:<14}{}\n", size_text(static_cast<int64_t>(file.size_bytes)), unused_text(file.unused_s),
                        file.model.empty() ? "damaged; will be compiled again when needed" : escape_controls(file.model));
  print_text(text);
  return 0;
}

int print_freed(int64_t bytes, const Terminal& terminal) {
  if (terminal.json) {
    print_result("{}\n", Json{{"freed_bytes", bytes}}.dump(2));
  } else {
    print_text(fmt::format("freed {}\n", size_text(bytes)));
  }
  return 0;
}

int clear_cache(const Terminal& terminal) {
  return print_freed(static_cast<int64_t>(clear_compile_cache(default_compile_cache())), terminal);
}

int remove_model(const std::string& repository, const Terminal& terminal) { return print_freed(remove_pulled(repository), terminal); }

int check_cache(const Terminal& terminal) {
  const std::vector<CompiledFile> damaged = check_compile_cache(default_compile_cache());
  if (terminal.json) {
    Json list = Json::array();
    for (const CompiledFile& file : damaged) list.push_back(file_json(file));
    print_result("{}\n", Json{{"damaged", std::move(list)}}.dump(2, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  std::string text =
      fmt::format("{} damaged file{} found{}\n", damaged.size(), damaged.size() == 1 ? "" : "s", damaged.empty() ? "" : " and deleted");
  for (const CompiledFile& file : damaged) text += escape_controls(file.path.string()) + "\n";
  print_text(text);
  return 0;
}

}  // namespace

void add_models(Commands commands) {
  struct Choice {
    bool cache = false, check = false, clear = false;
    std::string remove;
  };
  const auto choice = std::make_shared<Choice>();
  CLI::App* command =
      commands.app.add_subcommand("models", "List the models on the search path and in the hub cache; show or clear the compile cache");
  CLI::Option* cache = command->add_flag("--cache", choice->cache, "List the files of the compile cache");
  CLI::Option* check = command->add_flag("--check-cache", choice->check, "Check all files of the compile cache and delete damaged ones");
  command->add_flag("--clear-cache", choice->clear, "Delete all files of the compile cache")->excludes(cache)->excludes(check);
  check->excludes(cache);
  command->add_option("--remove", choice->remove, "Delete a repository from the hub cache")->option_text("REPO");
  add_common_options(*command, commands.terminal);
  command->callback([=] {
    commands.run = [=] {
      if (!choice->remove.empty()) return remove_model(choice->remove, commands.terminal);
      if (choice->clear) return clear_cache(commands.terminal);
      if (choice->check) return check_cache(commands.terminal);
      return choice->cache ? print_cache(commands.terminal) : print_models(commands.terminal);
    };
  });
}

}  // namespace kvik::cli
