#include "base/new_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvik/error.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // as Linux allows in one path
constexpr std::string_view kExtension = ".partial";

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "no regular file";
}

// Renaming over a device or a pipe would replace it by a file.
void check_replaceable(const fs::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return;
  throw Error(Code::kIo, fmt::format("{}: cannot be written, because it is {}; a regular file or a new name was expected", path.string(),
                                     kind_of(info.st_mode)));
}

// Where a path leads; the last of a chain of links need not exist.
fs::path follow_links(const fs::path& path) {
  fs::path target = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code no_link;
    const fs::path next = fs::read_symlink(target, no_link);
    if (no_link) return target;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  throw Error(Code::kIo, fmt::format("{}: cannot be written: it is a chain of more than {} symbolic links", path.string(), kMaxLinks));
}

bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }

// "NAME.PID-COUNT.partial"
bool is_partial_of(std::string_view name, std::string_view file) {
  if (!name.starts_with(file) || !name.ends_with(kExtension) || name.size() <= file.size() + 1 + kExtension.size()) return false;
  name.remove_prefix(file.size());
  name.remove_suffix(kExtension.size());
  const size_t dash = name.find('-');
  return name.front() == '.' && dash != std::string_view::npos && is_number(name.substr(1, dash - 1)) && is_number(name.substr(dash + 1));
}

// A process that writes a partial file holds a lock on it, so a file that can be locked was left behind.
void remove_if_stale(const fs::path& partial) {
  const int descriptor = open(partial.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat info {};
  const bool is_ours = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
  if (is_ours && flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(partial.c_str());
  close(descriptor);
}

void remove_stale_partials(const fs::path& target) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const std::string file = target.filename().string();
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    if (is_partial_of(entry->path().filename().string(), file)) remove_if_stale(entry->path());
  }
}

// The rename itself is on the disk only with its folder. File systems that cannot sync a folder need not.
void sync_folder(const fs::path& target) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

NewFile::NewFile(fs::path path) : path_(std::move(path)) {
  check_replaceable(path_);
  target_ = follow_links(path_);
  remove_stale_partials(target_);
  open_partial();
  // A file that only its owner may read stays so.
  struct stat info {};
  if (stat(target_.c_str(), &info) == 0) fchmod(descriptor_, info.st_mode & 07777);
}

// Another process may take the file for stale between its creation and the lock; then it is gone, and the next is made.
void NewFile::open_partial() {
  static std::atomic<int> count = 0;  // several threads, or several processes, may write one file: the last one wins
  for (;;) {
    partial_ = fmt::format("{}.{}-{}{}", target_.string(), getpid(), ++count, kExtension);
    descriptor_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;  // of an earlier process with the same number
    if (descriptor_ < 0) fail();
    while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {}
    struct stat info {};
    if (fstat(descriptor_, &info) == 0 && info.st_nlink > 0) return;
    close(descriptor_);
  }
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  unlink(partial_.c_str());
  close(descriptor_);
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n_written = ::write(descriptor_, bytes.data(), bytes.size());
    if (n_written < 0 && errno == EINTR) continue;
    if (n_written <= 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(n_written));
  }
}

void NewFile::commit() {
  check_replaceable(path_);  // once more: writing may have taken long
  if (fsync(descriptor_) != 0 || rename(partial_.c_str(), target_.c_str()) != 0) fail();
  close(descriptor_);
  descriptor_ = -1;
  sync_folder(target_);
}

void NewFile::fail() const {
  throw Error(Code::kIo, fmt::format("{}: the file could not be written: {}", path_.string(), std::strerror(errno)));
}

void remove_stale_partials_in(const fs::path& folder) {
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    const std::string name = entry->path().filename().string();
    const size_t numbers = name.rfind('.', name.size() - std::min(name.size(), kExtension.size() + 1));
    if (numbers != std::string::npos && is_partial_of(name, name.substr(0, numbers))) remove_if_stale(entry->path());
  }
}

void write_file(const fs::path& path, std::string_view content) {
  NewFile file(path);
  file.write(std::as_bytes(std::span(content)));
  file.commit();
}

}  // namespace kvik
