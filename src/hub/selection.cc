#include "hub/selection.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "analysis/configs.h"
#include "analysis/discovery.h"
#include "analysis/port_names.h"
#include "kvik/error.h"

namespace kvik::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigEndings[] = {".json", ".txt", ".model", ".jinja", ".spm", ".bpe", ".codes", ".vocab", ".tiktoken"};

std::string in_folder(const std::string& folder, const std::string& name) { return folder.empty() ? name : folder + "/" + name; }

// The part of a path before its last name; empty for the root.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string() : path.substr(0, slash);
}

// "1_Pooling", "2_Dense": a digit, an underscore, a word.
bool is_module_folder(std::string_view name) {
  const size_t digits = name.find_first_not_of("0123456789");
  return digits != name.npos && digits > 0 && name[digits] == '_' && name.find('/') == name.npos;
}

std::vector<fs::path> graphs_in(const Listing& listing, const std::string& folder) {
  std::vector<fs::path> graphs;
  for (const Entry& entry : listing.entries) {
    if (folder_of(entry.path) == folder && entry.path.ends_with(".onnx")) graphs.emplace_back(entry.path);
  }
  std::ranges::sort(graphs);
  return graphs;
}

std::vector<std::string> genai_graphs(const std::string& text, const std::string& folder) {
  analysis::Configs configs;
  configs.genai = Json::parse(text, nullptr, false);
  std::vector<std::string> paths;
  for (const std::string& name : analysis::genai_files(configs)) paths.push_back(in_folder(folder, name));
  return paths;
}

[[noreturn]] void no_graphs(const Listing& listing, const std::string& repository, const std::string& folder) {
  std::set<std::string> others;
  for (const Entry& entry : listing.entries) {
    if (entry.path.ends_with(".onnx") && others.size() < 20) others.insert(folder_of(entry.path));
  }
  const std::string where = folder.empty() ? "its root or in onnx/" : folder;
  if (others.empty())
    throw Error(Code::kIo,
                fmt::format("{}: there is no .onnx file in it; look for a repository with an ONNX export of this model", repository));
  throw Error(Code::kIo, fmt::format("{}: there is no .onnx file in {}; choose one of these folders (--folder): {}", repository, where,
                                     fmt::join(others, ", ")));
}

bool is_merged_from(const fs::path& graph, const std::vector<fs::path>& all) {
  const auto parts_of = [](const fs::path& path) { return analysis::name_parts(path.stem().string()); };
  const bool has_merged =
      std::ranges::any_of(all, [&](const fs::path& one) { return parts_of(one).has("decoder") && parts_of(one).has("merged"); });
  return has_merged && parts_of(graph).has("decoder") && !parts_of(graph).has("merged");
}

}  // namespace

bool is_config(const Entry& entry, const std::string& folder) {
  const std::string place = folder_of(entry.path);
  const std::string below = folder.empty() ? place : place.starts_with(folder + "/") ? place.substr(folder.size() + 1) : place;
  const bool is_here = place == folder || place == in_folder(folder, "onnx");
  if (is_module_folder(below)) return entry.path.ends_with("/config.json") || entry.path.ends_with("/model.safetensors");
  if (!is_here || entry.path.ends_with(".index.json")) return false;
  return std::ranges::any_of(kConfigEndings, [&](std::string_view ending) { return entry.path.ends_with(ending); });
}

std::vector<Entry> choose_graphs(const Listing& listing, const std::string& repository, const PullOptions& options,
                                 const std::string& genai_config) {
  std::vector<std::string> chosen;
  if (!options.variant) chosen = genai_graphs(genai_config, options.folder);
  if (chosen.empty()) {
    std::vector<fs::path> graphs = graphs_in(listing, options.folder);
    if (graphs.empty()) graphs = graphs_in(listing, in_folder(options.folder, "onnx"));
    if (graphs.empty()) no_graphs(listing, repository, options.folder);
    std::vector<fs::path> needed;
    std::ranges::copy_if(graphs, std::back_inserter(needed), [&](const fs::path& graph) { return !is_merged_from(graph, graphs); });
    for (const fs::path& graph : analysis::choose_variants(needed, options.variant, repository)) chosen.push_back(graph.string());
  }
  std::vector<Entry> entries;
  for (const std::string& path : chosen) {
    const auto found = std::ranges::find(listing.entries, path, &Entry::path);
    if (found == listing.entries.end())
      throw Error(Code::kIo, fmt::format("{}: genai_config.json names '{}', and the repository has no such file", repository, path));
    entries.push_back(*found);
  }
  return entries;
}

bool is_data_of(const Entry& entry, const Entry& graph) {
  return entry.path.starts_with(graph.path + "_data") || entry.path.starts_with(graph.path + ".data");
}

}  // namespace kvik::hub
