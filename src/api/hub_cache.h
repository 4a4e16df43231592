#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The download cache of Hugging Face's tools: models--ORG--NAME/{blobs,refs,snapshots}. Only read here; src/hub writes it.
namespace kvik::api {

// Whether it is a valid name on the hub: "ORG/NAME" or "NAME".
bool is_repository_name(const std::string& name);

// models--ORG--NAME in the cache.
std::filesystem::path repository_folder(const std::filesystem::path& cache, const std::string& repository);

struct CachedRepository {
  std::string name;                // "ORG/NAME"
  std::filesystem::path folder;    // models--ORG--NAME
  std::filesystem::path snapshot;  // of revision "main", else the only one; empty if there is none
};

// Sorted by name.
std::vector<CachedRepository> cached_repositories(const std::filesystem::path& cache);

// By "ORG/NAME", or by "NAME" if one organization has it. Throws Error(kBadArgument) if several have; nullopt if none has.
std::optional<CachedRepository> find_cached_repository(const std::filesystem::path& cache, const std::string& name);

}  // namespace kvik::api
