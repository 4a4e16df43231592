#include "base/new_file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "kvik/error.h"

namespace kvik {

NewFile::NewFile(std::filesystem::path path) : path_(std::move(path)) {
  static std::atomic<int> count = 0;  // two threads, or two processes, may write the same file: the last one stays
  beside_ = fmt::format("{}.{}-{}.partial", path_.string(), getpid(), ++count);
  descriptor_ = open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail();
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(beside_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n_written = ::write(descriptor_, bytes.data(), bytes.size());
    if (n_written < 0 && errno == EINTR) continue;
    if (n_written <= 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(n_written));
  }
}

void NewFile::keep() {
  if (fsync(descriptor_) != 0 || rename(beside_.c_str(), path_.c_str()) != 0) fail();
  close(descriptor_);
  descriptor_ = -1;
}

void NewFile::fail() const {
  throw Error(Code::kIo, fmt::format("{}: the file could not be written: {}", path_.string(), std::strerror(errno)));
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  NewFile file(path);
  file.write(std::as_bytes(std::span(content)));
  file.keep();
}

}  // namespace kvik
