#include <cstdlib>
#include <fmt/format.h>
#include <fstream>

#include "api/environment.h"
#include "api/hub_cache.h"
#include "kvik/hub.h"

namespace kvik::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestToken = 1024;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; });
  return text;
}

// The token that `hf auth login` stores.
std::string stored_token(const fs::path& cache) {
  fs::path path = variable("HF_TOKEN_PATH");
  if (path.empty() && !variable("HF_HOME").empty()) path = fs::path(variable("HF_HOME")) / "token";
  if (path.empty()) path = cache.parent_path() / "token";
  std::ifstream file(path);
  std::string token;
  if (!file || !std::getline(file, token) || token.size() > kLongestToken) return {};
  return token;
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder / "blobs", unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    std::error_code vanished;
    const uintmax_t size = entry->is_symlink(vanished) ? 0 : entry->file_size(vanished);
    if (!vanished) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace

bool is_name(const std::string& repository) { return api::is_repository_name(repository); }

Settings settings_of_environment() {
  Settings settings;
  if (const std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  settings.cache = api::read_environment().hub_cache;
  settings.token = without_spaces(variable("HF_TOKEN"));
  if (settings.token.empty()) settings.token = without_spaces(stored_token(settings.cache));
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}) {
    if (settings.certificates.empty()) settings.certificates = variable(name);
  }
  return settings;
}

std::vector<Cached> list(const Settings& settings) {
  std::vector<Cached> all;
  for (const api::CachedRepository& one : api::cached_repositories(settings.cache))
    all.push_back({.repository = one.name, .folder = one.snapshot, .bytes = bytes_in(one.folder)});
  return all;
}

int64_t remove(const std::string& repository, const Settings& settings) {
  std::vector<Cached> found = list(settings);
  std::erase_if(found, [&](const Cached& one) { return one.repository != repository && !one.repository.ends_with("/" + repository); });
  if (found.empty() || !api::is_repository_name(repository))
    throw Error(Code::kIo, fmt::format("{}: the hub cache ({}) has no repository of that name", repository, settings.cache.string()));
  if (found.size() > 1)
    throw Error(Code::kBadArgument,
                fmt::format("{}: the hub cache has {} and {}; name one of them", repository, found[0].repository, found[1].repository));
  const fs::path folder = api::repository_folder(settings.cache, found.front().repository);
  // Renamed first, so that a partially deleted snapshot is never found.
  const fs::path doomed = settings.cache / fmt::format(".removed-{}", folder.filename().string());
  std::error_code failed;
  fs::remove_all(doomed, failed);
  fs::rename(folder, doomed, failed);
  if (!failed) fs::remove_all(doomed, failed);
  if (failed) throw Error(Code::kIo, fmt::format("{}: {}", folder.string(), failed.message()));
  fs::remove_all(settings.cache / ".locks" / folder.filename(), failed);
  return found.front().bytes;
}

}  // namespace kvik::hub
