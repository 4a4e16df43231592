#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "hub/listing.h"

namespace kvik::hub {

// The folder of one repository in the cache, as huggingface_hub lays it out: blobs/ by digest, snapshots/COMMIT/ with relative links to
// them, refs/ with the commit of each branch. Locks of files being downloaded are beside it.
class Store {
 public:
  Store(const std::filesystem::path& cache, const std::string& repository);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const Entry& entry) const { return folder_ / "blobs" / entry.digest; }
  std::filesystem::path partial(const Entry& entry) const { return folder_ / "blobs" / (entry.digest + ".incomplete"); }
  std::filesystem::path lock(const Entry& entry) const { return locks_ / (entry.digest + ".lock"); }
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }

  bool has(const Entry& entry) const;               // whole
  int64_t missing_bytes(const Entry& entry) const;  // still to be downloaded

  // Links a snapshot's file to its blob.
  void link(const std::string& commit, const Entry& entry) const;
  void set_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path folder_, locks_;
};

struct Fetch {
  std::string url, token;
  std::function<void(int64_t done)> progress;  // bytes downloaded so far
  std::function<bool()> cancelled;
};

// Downloads a blob unless it is there: continues what an earlier download left, compares the checksum, and gives it its name only then.
// False if it was cancelled. Throws Error(kIo) if the disk or the network fails; what was downloaded is kept.
bool fetch_blob(HttpClient& client, const Store& store, const Entry& entry, const Fetch& fetch, Response& refused);

}  // namespace kvik::hub
