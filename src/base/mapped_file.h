#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace kvik {

// A whole file, read-only, mapped into memory: opening costs nothing, pages are read when touched.
// Immutable after open(), so any thread may read. The bytes live as long as the object.
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

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size_bytes)
      : path_(std::move(path)), data_(data), size_bytes_(size_bytes) {}

  std::filesystem::path path_;
  const std::byte* data_;  // null for an empty file, which cannot be mapped
  size_t size_bytes_;
};

// Gives the memory of a part of a mapped file back; whoever touches it again reads it again, from the system's cache as a rule. Only for
// bytes of a MappedFile.
void drop_pages(std::span<const std::byte> bytes);

}  // namespace kvik
