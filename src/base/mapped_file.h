#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

struct stat;

namespace kvik {

// A whole file mapped read-only into memory: opening is cheap, pages are read on first use.
// Immutable after open(), so any thread may read. The bytes live as long as the object.
//
// A file that is replaced (written beside and renamed) or deleted keeps its bytes here. One that is truncated or overwritten in place
// does not: its bytes change, and reading past its new end raises SIGBUS. check_unchanged() finds that, unless it happens while the bytes
// are being read.
class MappedFile {
 public:
  // Follows symbolic links. Throws Error(kIo) unless `path` is a readable regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  size_t size_bytes() const { return size_bytes_; }
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_bytes_}; }

  // When it was written and when anything about it changed, in ns since 1970, as of open(). The second cannot be set by a program.
  int64_t modified_ns() const { return version_.modified_s * 1'000'000'000 + version_.modified_ns; }
  int64_t status_changed_ns() const { return status_changed_ns_; }

  // Throws Error(kIo) if the file was truncated or overwritten since open(). One system call.
  void check_unchanged() const;

 private:
  // What tells one version of a file from the next.
  struct Version {
    uint64_t device, inode;
    int64_t modified_s, modified_ns;
    bool operator==(const Version&) const = default;
  };
  static Version version_of(const struct stat& info);

  MappedFile(std::filesystem::path path, const std::byte* data, const struct stat& info);

  std::filesystem::path path_;
  const std::byte* data_;  // null for an empty file, which cannot be mapped
  size_t size_bytes_;
  Version version_;
  int64_t status_changed_ns_;
};

// Frees the memory of a part of a MappedFile. Reading it again loads it again, usually from the page cache.
void drop_pages(std::span<const std::byte> bytes);

}  // namespace kvik
