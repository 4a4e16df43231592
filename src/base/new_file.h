#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace kvik {

// A file that appears whole or not at all: it is written beside its name and takes the name only when everything is on the disk. What was
// there before stays until then. Throws Error(kIo).
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // without keep(): nothing was written

  void write(std::span<const std::byte> bytes);
  void keep();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::string beside_;
  int descriptor_ = -1;
};

void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace kvik
