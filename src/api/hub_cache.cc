#include "api/hub_cache.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>

#include "kvik/error.h"

namespace kvik::api {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--", kSeparator = "--";
constexpr size_t kLongestName = 96;  // the hub's own limit

bool is_name_part(std::string_view part) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !part.empty() && std::ranges::all_of(part, is_allowed) && part.find("..") == part.npos && part.find(kSeparator) == part.npos &&
         part.front() != '.' && part.front() != '-' && part.back() != '.' && part.back() != '-';
}

std::string repository_of(const std::string& folder) {
  std::string name = folder.substr(kPrefix.size());
  if (const size_t at = name.find(kSeparator); at != name.npos) name.replace(at, kSeparator.size(), "/");
  return name;
}

// What "main" refers to, or the only snapshot there is.
fs::path snapshot_in(const fs::path& folder) {
  std::error_code unreadable;
  std::ifstream ref(folder / "refs" / "main");
  std::string commit;
  if (std::getline(ref, commit) && is_name_part(commit) && fs::is_directory(folder / "snapshots" / commit, unreadable))
    return folder / "snapshots" / commit;
  std::vector<fs::path> all;
  for (fs::directory_iterator entry(folder / "snapshots", unreadable), end; !unreadable && entry != end; entry.increment(unreadable))
    all.push_back(entry->path());
  return all.size() == 1 ? all.front() : fs::path();
}

}  // namespace

bool is_repository_name(const std::string& name) {
  if (name.size() > kLongestName) return false;
  const size_t slash = name.find('/');
  if (slash == name.npos) return is_name_part(name);
  return is_name_part(std::string_view(name).substr(0, slash)) && is_name_part(std::string_view(name).substr(slash + 1));
}

fs::path repository_folder(const fs::path& cache, const std::string& repository) {
  std::string folder = std::string(kPrefix) + repository;
  if (const size_t slash = folder.find('/'); slash != folder.npos) folder.replace(slash, 1, kSeparator);
  return cache / folder;
}

std::vector<CachedRepository> cached_repositories(const fs::path& cache) {
  std::vector<CachedRepository> found;
  std::error_code unreadable;
  if (cache.empty()) return found;
  for (fs::directory_iterator entry(cache, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    const std::string folder = entry->path().filename().string();
    std::error_code no_status;
    if (!folder.starts_with(kPrefix) || !entry->is_directory(no_status)) continue;
    found.push_back({repository_of(folder), entry->path(), snapshot_in(entry->path())});
  }
  std::ranges::sort(found, {}, &CachedRepository::name);
  return found;
}

std::optional<CachedRepository> find_cached_repository(const fs::path& cache, const std::string& name) {
  if (cache.empty() || !is_repository_name(name)) return std::nullopt;
  std::vector<CachedRepository> alike;
  for (CachedRepository& repository : cached_repositories(cache)) {
    if (repository.snapshot.empty()) continue;
    if (repository.name == name) return repository;
    if (repository.name.ends_with("/" + name)) alike.push_back(std::move(repository));
  }
  if (alike.empty()) return std::nullopt;
  if (alike.size() == 1) return alike.front();
  std::vector<std::string> names;
  for (const CachedRepository& repository : alike) names.push_back(repository.name);
  throw Error(Code::kBadArgument,
              fmt::format("the hub cache has several models called {}: {}; name one of them", name, fmt::join(names, ", ")));
}

}  // namespace kvik::api
