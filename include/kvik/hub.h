#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/error.h"

// Downloads models from a Hugging Face hub into the cache that its Python tools use, so that both find each other's files. A library of
// its own (kvik_hub), because it needs libcurl: the library that runs models needs no network.
namespace kvik::hub {

// Where the hub is, where its files are kept, and who asks.
struct Settings {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache;
  std::string token;                   // empty: none. Sent to the endpoint only, and there only by HTTPS or on this machine
  std::filesystem::path certificates;  // PEM, of the authorities that HTTPS trusts; empty: those of the system
};
// From HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_TOKEN_PATH and the token file of HF_HOME; certificates from the first that is set
// of SSL_CERT_FILE, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE, as Python's tools have it.
Settings settings_of_environment();

// Whether a repository can have this name: "ORG/NAME" or "NAME".
bool is_name(const std::string& repository);

// A file of a repository.
struct File {
  std::string path;  // in the repository
  int64_t bytes = 0;
  bool there = false;  // in the cache already, before the call
};

// How far a download is. `path` and the two numbers after it belong to one file; several download at a time.
struct Progress {
  std::string_view path;
  int64_t file_done = 0, file_bytes = 0;
  int64_t done = 0, bytes = 0;  // of all files
};

struct PullOptions {
  Settings settings;
  std::string revision = "main";       // branch, tag or commit
  std::optional<std::string> variant;  // which precision if there are several ("fp16", "q4", …); not set: as Model::load() chooses
  std::string folder;                  // of the repository, if the model is not in its root or in onnx/
  bool dry_run = false;                // only says what would be downloaded
  int connections = 4;                 // files at a time
  std::function<void(const Progress&)> progress;  // from several threads, one call at a time
  std::function<bool()> cancelled;                // polled often, from several threads
};

struct Pulled {
  std::string commit;
  std::filesystem::path folder;  // the snapshot; what Model::load() reads
  std::vector<File> files;
  int64_t downloaded_bytes = 0;
  bool cancelled = false;  // what was downloaded is kept, and the next pull continues there
};

// Files become visible when all of them are complete and their checksums are right. Throws Error: kBadArgument for names that no hub has,
// kIo for everything that the network, the hub or the disk refuses.
Pulled pull(const std::string& repository, const PullOptions& options = {});

// A repository in the cache.
struct Cached {
  std::string repository;        // "ORG/NAME"
  std::filesystem::path folder;  // the snapshot that its name stands for; empty if none is complete
  int64_t bytes = 0;             // of all its files, all revisions together
};
std::vector<Cached> list(const Settings& settings);

// Removes what the cache has of a repository, all revisions. Returns the bytes that were freed. Throws Error(kIo) if there is nothing.
int64_t remove(const std::string& repository, const Settings& settings);

}  // namespace kvik::hub
