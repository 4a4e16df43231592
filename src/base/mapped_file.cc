#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvik/error.h"

namespace kvik {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what) {
  throw Error(Code::kIo, fmt::format("{}: {}", path.string(), what));
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) fail(path, fmt::format("cannot open the file ({})", std::strerror(errno)));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) fail(path, fmt::format("cannot read the file's size ({})", std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) fail(path, "is a folder; a file was expected");
  if (!S_ISREG(info.st_mode)) fail(path, "is not a regular file");
  const auto size_bytes = static_cast<size_t>(info.st_size);
  if (size_bytes == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, nullptr, info));
  void* data = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) fail(path, fmt::format("cannot map {} bytes into memory ({})", size_bytes, std::strerror(errno)));
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), info));
}

MappedFile::Version MappedFile::version_of(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

MappedFile::MappedFile(std::filesystem::path path, const std::byte* data, const struct stat& info)
    : path_(std::move(path)),
      data_(data),
      size_bytes_(static_cast<size_t>(info.st_size)),
      version_(version_of(info)),
      status_changed_ns_(int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec) {}

void MappedFile::check_unchanged() const {
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0) return;  // deleted: the mapping keeps its bytes
  const Version now = version_of(info);
  if (now.device != version_.device || now.inode != version_.inode) return;  // replaced: the mapping keeps the old file
  if (now == version_ && static_cast<size_t>(info.st_size) == size_bytes_) return;
  fail(path_, fmt::format("the file was changed while it was in use (it had {} bytes and now has {}); load the model again, and replace "
                          "model files by renaming a new one",
                          size_bytes_, info.st_size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_bytes_);
}

void drop_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = (page - reinterpret_cast<uintptr_t>(bytes.data()) % page) % page;  // the first page may hold other bytes too
  if (bytes.size() < before + page) return;
  const std::span<const std::byte> whole = bytes.subspan(before, (bytes.size() - before) / page * page);
  madvise(const_cast<std::byte*>(whole.data()), whole.size(), MADV_DONTNEED);  // a hint: a failure does no harm
}

}  // namespace kvik
