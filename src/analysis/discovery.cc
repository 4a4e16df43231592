#include "analysis/discovery.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

#include "analysis/port_names.h"
#include "kvik/error.h"

namespace kvik::analysis {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVariants[] = {"fp32", "fp16", "bf16",  "quantized", "int8",  "uint8", "q8",    "q4",   "q4f16",
                                          "bnb4", "q2",   "q2f16", "q1",        "q1f16", "int4",  "uint4", "q8f16"};

std::vector<fs::path> models_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    std::error_code broken_link;
    if (entry->path().extension() == ".onnx" && entry->is_regular_file(broken_link)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> models_under(const fs::path& folder) {
  for (const fs::path& place : {folder, folder / "onnx"}) {
    if (auto found = models_in(place); !found.empty()) return found;
  }
  return {};
}

// Files by base name, then by variant.
using Variants = std::map<std::string, std::map<std::string, fs::path>>;

Variants group(const std::vector<fs::path>& files) {
  Variants groups;
  for (const fs::path& file : files) {
    const VariantName name = variant_name(file);
    groups[name.base][name.variant] = file;
  }
  return groups;
}

std::vector<std::string> names_of(const std::map<std::string, fs::path>& variants) {
  std::vector<std::string> names;
  for (const auto& [name, file] : variants) names.push_back(name.empty() ? "fp32" : name);
  return names;
}

const fs::path* pick(const std::map<std::string, fs::path>& variants, const std::string& wanted) {
  for (const std::string& name : {wanted, std::string(wanted == "fp32" ? "" : wanted)}) {
    const auto found = variants.find(name);
    if (found != variants.end()) return &found->second;
  }
  return nullptr;
}

fs::path choose(const std::string& base, const std::map<std::string, fs::path>& variants, const std::optional<std::string>& wanted) {
  if (wanted) {
    if (const fs::path* found = pick(variants, *wanted)) return *found;
  }
  if (const fs::path* plain = pick(variants, "")) return *plain;
  if (variants.size() == 1) return variants.begin()->second;
  throw Error(
      Code::kBadArgument,
      fmt::format("{}: '{}' exists in several precisions ({}), all with a suffix; choose a variant or pass the path of a file, such as {}",
                  variants.begin()->second.parent_path().string(), base, fmt::join(names_of(variants), ", "),
                  variants.begin()->second.filename().string()));
}

// Whether the name is that of one part of a model with several files.
bool is_part_name(const fs::path& file) {
  const NameParts parts = name_parts(file.stem().string());
  return parts.has_any(
      {"encoder", "decoder", "embed", "embeds", "vision", "audio", "embedding", "embeddings", "past", "prefill", "merged"});
}

Discovery discover_file(const fs::path& file) {
  Discovery result{config_folder(file), {file}, file};
  const std::string variant = variant_name(file).variant;
  for (const auto& [base, variants] : group(models_in(file.parent_path().empty() ? fs::path(".") : file.parent_path()))) {
    if (base == variant_name(file).base) continue;
    const fs::path* same = pick(variants, variant);
    if (same == nullptr) same = pick(variants, "");
    if (same == nullptr && variants.size() == 1) same = &variants.begin()->second;
    if (same != nullptr && is_part_name(*same)) result.files.push_back(*same);
  }
  std::sort(result.files.begin(), result.files.end());
  return result;
}

std::vector<fs::path> discover_genai(const fs::path& folder, const Configs& configs) {
  std::vector<fs::path> files;
  std::error_code unreadable;
  for (const std::string& name : genai_files(configs)) {
    const fs::path file = folder / name;
    const bool leaves = fs::path(name).is_absolute() || name.find("..") != std::string::npos;
    if (leaves)
      throw Error(Code::kBadModel,
                  fmt::format("{}: the file name '{}' is outside the folder", (folder / "genai_config.json").string(), name));
    if (!fs::is_regular_file(file, unreadable))
      throw Error(Code::kIo, fmt::format("{}: the file '{}' is not in the folder", (folder / "genai_config.json").string(), name));
    files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<fs::path> choose_variants(const std::vector<fs::path>& files, const std::optional<std::string>& wanted, const fs::path& where) {
  const Variants groups = group(files);
  std::set<std::string> there;
  for (const auto& [base, variants] : groups) {
    for (const std::string& name : names_of(variants)) there.insert(name);
  }
  if (wanted && !there.contains(wanted->empty() ? "fp32" : *wanted))
    throw Error(Code::kBadArgument,
                fmt::format("{}: no model of precision '{}' was found; found {}", where.string(), *wanted, fmt::join(there, ", ")));
  std::vector<fs::path> chosen;
  for (const auto& [base, variants] : groups) chosen.push_back(choose(base, variants, wanted));
  return chosen;
}

VariantName variant_name(const fs::path& file) {
  const std::string stem = file.stem().string();
  const size_t at = stem.find_last_of("_.");
  if (at != std::string::npos && at > 0) {
    const std::string_view tail = std::string_view(stem).substr(at + 1);
    if (std::find(std::begin(kVariants), std::end(kVariants), tail) != std::end(kVariants)) return {stem.substr(0, at), std::string(tail)};
  }
  return {stem, ""};
}

fs::path config_folder(const fs::path& path) {
  std::error_code unreadable;
  if (fs::is_directory(path, unreadable)) return path;
  return path.parent_path().empty() ? fs::path(".") : path.parent_path();
}

Discovery discover(const fs::path& path, const std::optional<std::string>& variant, const Configs& configs) {
  std::error_code unreadable;
  if (!fs::exists(path, unreadable))
    throw Error(Code::kIo, fmt::format("{}: no such file or folder; expected an .onnx file or a folder with one", path.string()));
  if (!fs::is_directory(path, unreadable)) return discover_file(path);

  Discovery result{configs.folder, {}, {}};
  if (!variant) result.files = discover_genai(path, configs);
  if (!result.files.empty()) return result;
  const std::vector<fs::path> there = models_under(path);
  if (there.empty()) {
    throw Error(
        Code::kBadModel,
        fmt::format("{}: no .onnx file was found in this folder or in its 'onnx' folder; export the model to ONNX first", path.string()));
  }
  result.files = choose_variants(there, variant, path);
  return result;
}

}  // namespace kvik::analysis
