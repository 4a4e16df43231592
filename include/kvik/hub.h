#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/error.h"

// Downloads models from the Hugging Face hub into the cache that its Python tools use, so that each finds the other's downloads. This is a
// separate library (kvik_hub), because it needs libcurl; the library that runs models needs no network.
namespace kvik::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache;
  std::string token;                   // empty: none. Sent only to the endpoint, over HTTPS or to this machine
  std::filesystem::path certificates;  // PEM file of trusted certificate authorities; empty: those of the system
};
// From HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_TOKEN_PATH and the token file in HF_HOME. Certificates: the first variable that is
// set of SSL_CERT_FILE, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE, as for the Python tools.
Settings settings_of_environment();

// Whether this is a valid repository name: "ORG/NAME" or "NAME".
bool is_name(const std::string& repository);

// A file of a repository.
struct File {
  std::string path;  // in the repository
  int64_t bytes = 0;
  bool there = false;  // was in the cache before the call
};

// Progress of a download. The first two lines are about one file; several files download in parallel.
struct Progress {
  std::string_view path;
  int64_t file_done = 0, file_bytes = 0;
  int64_t done = 0, bytes = 0;  // of all files together
};

struct PullOptions {
  Settings settings;
  std::string revision = "main";       // branch, tag or commit
  std::optional<std::string> variant;  // which precision, if there are several ("fp16", "q4", …); not set: the default of Model::load()
  std::string folder;                  // folder in the repository, if the model is not in its root or in onnx/
  bool dry_run = false;                // only list what would be downloaded
  int connections = 4;                 // parallel downloads
  std::function<void(const Progress&)> progress;  // called from several threads, one call at a time
  std::function<bool()> cancelled;                // polled often, from several threads
};

struct Pulled {
  std::string commit;
  std::filesystem::path folder;  // the snapshot, for Model::load()
  std::vector<File> files;
  int64_t downloaded_bytes = 0;
  bool cancelled = false;  // partial downloads are kept, and the next pull continues them
};

// Files become visible when all of them are complete and their checksums have been verified. Throws Error: kBadArgument for an invalid
// name, kIo for failures of the network, the hub or the disk.
Pulled pull(const std::string& repository, const PullOptions& options = {});

// A repository in the cache.
struct Cached {
  std::string repository;        // "ORG/NAME"
  std::filesystem::path folder;  // the snapshot that Model::load() uses; empty if none is complete
  int64_t bytes = 0;             // of all files of all revisions
};
std::vector<Cached> list(const Settings& settings);

// Deletes all revisions of a repository from the cache. Returns the bytes freed. Throws Error(kIo) if the repository is not in the cache.
int64_t remove(const std::string& repository, const Settings& settings);

}  // namespace kvik::hub
