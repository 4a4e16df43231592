#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

#include "api/hub_cache.h"
#include "base/new_file.h"
#include "hub/blob.h"
#include "kvik/error.h"

namespace kvik::hub {

namespace fs = std::filesystem;

Store::Store(const fs::path& cache, const std::string& repository)
    : folder_(api::repository_folder(cache, repository)), locks_(cache / ".locks" / folder_.filename()) {}

bool Store::has(const Entry& entry) const {
  std::error_code missing;
  return fs::is_regular_file(blob(entry), missing) && fs::file_size(blob(entry), missing) == static_cast<uintmax_t>(entry.bytes);
}

int64_t Store::missing_bytes(const Entry& entry) const {
  if (has(entry)) return 0;
  std::error_code missing;
  const uintmax_t there = fs::file_size(partial(entry), missing);
  return missing || there > static_cast<uintmax_t>(entry.bytes) ? entry.bytes : entry.bytes - static_cast<int64_t>(there);
}

void Store::link(const std::string& commit, const Entry& entry) const {
  const fs::path pointer = snapshot(commit) / entry.path;
  // A folder of the snapshot that is a link could point anywhere.
  fs::path parent = snapshot(commit);
  const fs::path below = fs::path(entry.path).parent_path();
  fs::create_directories(parent);
  for (const fs::path& part : below) {
    parent /= part;
    fs::create_directory(parent);
    if (fs::is_symlink(parent))
      throw Error(Code::kIo, fmt::format("{}: a folder was expected, but it is a symbolic link", parent.string()));
  }
  fs::path target = "../..";
  for (auto part = below.begin(); part != below.end(); ++part) target = ".." / target;
  target /= fs::path("blobs") / entry.digest;
  std::error_code missing;
  if (fs::is_symlink(pointer, missing) && fs::read_symlink(pointer, missing) == target) return;
  static std::atomic<int> count = 0;  // several threads, or several processes, may pull one model
  const fs::path made = folder_ / fmt::format(".link-{}-{}", getpid(), ++count);
  fs::remove(made, missing);
  fs::create_symlink(target, made);
  fs::rename(made, pointer);  // replaces an existing file atomically
}

void Store::set_ref(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const fs::path ref = folder_ / "refs" / revision;
  fs::create_directories(ref.parent_path());
  std::ifstream file(ref);
  std::string known;
  if (file && std::getline(file, known) && known == commit) return;
  write_file(ref, commit);
}

}  // namespace kvik::hub
