#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kvik {

// A file that appears whole or not at all: it is written to a partial file in the same folder, which takes its name only once everything
// is on the disk. Until then a file that already has the name keeps its bytes. A symbolic link is followed: its target is replaced.
// Partial files of this name that a killed process left behind are removed; those of a process that is still writing are not.
//
// Throws Error(kIo), also if the path names anything but a regular file (a folder, a device, a pipe).
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // without commit(): nothing was written

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  void open_partial();
  [[noreturn]] void fail() const;

  std::filesystem::path path_;    // as the caller named it
  std::filesystem::path target_;  // the same with symbolic links followed
  std::string partial_;
  int descriptor_ = -1;
};

// Removes the partial files in a folder that killed processes left behind, whatever their names.
void remove_stale_partials_in(const std::filesystem::path& folder);

void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace kvik
