#include "backend/native/compile_cache.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/new_file.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".compiled";
constexpr uint64_t kFreeShare = 20;  // one of so many bytes of the disk stays free

// The time of the last access is the time of the last load: set here, because many systems do not. The time of the last change stays,
// because a file whose contents are mapped is checked by it.
void set_used(const fs::path& path, timespec time) {
  const timespec times[2] = {time, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  utimensat(AT_FDCWD, path.c_str(), times, 0);  // a failure does no harm
}

struct Entry {
  fs::path path;
  uint64_t size_bytes = 0;
  int64_t used_ns = 0;
};

// Most recently used first.
std::vector<Entry> entries_of(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    struct stat info {};
    if (entry->path().extension() != kExtension || lstat(entry->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    entries.push_back(
        {entry->path(), static_cast<uint64_t>(info.st_size), int64_t{info.st_atim.tv_sec} * 1'000'000'000 + info.st_atim.tv_nsec});
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return a.used_ns > b.used_ns; });
  return entries;
}

// A folder of its own for each user, as the XDG specification asks for.
void make_folder(const fs::path& folder) {
  if (fs::exists(folder)) return;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw fs::filesystem_error("cannot create the folder", folder, std::error_code(errno, std::generic_category()));
}

// Deletes the least recently used files until so many bytes fit.
bool make_room(const CompileCache& cache, uint64_t bytes) {
  if (bytes > cache.max_bytes) return false;
  remove_stale_partials_in(cache.folder);
  std::vector<Entry> entries = entries_of(cache.folder);
  uint64_t used = 0;
  for (const Entry& entry : entries) used += entry.size_bytes;
  while (!entries.empty() && used > cache.max_bytes - bytes) {
    std::error_code ignored;
    fs::remove(entries.back().path, ignored);
    used -= entries.back().size_bytes;
    entries.pop_back();
  }
  const fs::space_info disk = fs::space(cache.folder);
  return disk.available > bytes && disk.available - bytes >= disk.capacity / kFreeShare;
}

}  // namespace

std::optional<CompiledModel> find_compiled(const CompileCache& cache, const CompiledKey& key, const analysis::Signature& signature,
                                           const StageOptions& options, WeightChoice weights, const Log& log) {
  const fs::path path = cache.folder / key.file_name();
  std::error_code missing;
  if (cache.folder.empty() || !fs::exists(path, missing)) return std::nullopt;
  try {
    CompiledModel compiled = read_compiled(path, key, signature, options, weights);
    set_used(path, {.tv_sec = 0, .tv_nsec = UTIME_NOW});
    log.info(fmt::format("mapped {} MB of packed weights from the compile cache", compiled.file->size_bytes() / 1'000'000));
    return compiled;
  } catch (const Error& error) {
    log.warning(fmt::format("the compile cache is not used: {}", error.what()));
    return std::nullopt;
  }
}

bool is_worth_keeping(const CompileCache& cache, const std::vector<PackedPlan>& plans) {
  return !cache.folder.empty() && packed_bytes(plans) >= cache.min_model_bytes;
}

void keep_compiled(const CompileCache& cache, const CompiledKey& key, const SavedPlans& saved, const std::vector<PlanModel>& models,
                   const std::vector<PackedPlan>& plans, const Log& log) {
  const uint64_t bytes = packed_bytes(plans);
  try {
    make_folder(cache.folder);
    if (!make_room(cache, bytes + (uint64_t{1} << 20)))
      return log.info(
          fmt::format("the packed weights ({} MB) are not cached: {} has not enough space", bytes / 1'000'000, cache.folder.string()));
    write_compiled(cache.folder / key.file_name(), key, saved, models, plans);
    log.info(fmt::format("cached {} MB of packed weights in {}", bytes / 1'000'000, cache.folder.string()));
  } catch (const fs::filesystem_error& error) {
    log.warning(fmt::format("the packed weights are not cached: {}: {}; set KVIK_CACHE to a folder that can be written",
                            error.path1().string(), error.code().message()));
  } catch (const std::exception& error) { log.warning(fmt::format("the packed weights are not cached: {}", error.what())); }
}

}  // namespace kvik::native

namespace kvik {
namespace {

// Looking at a file is not using it.
void keep_used(const native::Entry& entry) {
  native::set_used(entry.path, {.tv_sec = entry.used_ns / 1'000'000'000, .tv_nsec = entry.used_ns % 1'000'000'000});
}

CompiledFile file_of(const native::Entry& entry) {
  const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  CompiledFile file{.path = entry.path, .size_bytes = entry.size_bytes};
  file.unused_s = std::max<int64_t>(0, (now_ns - entry.used_ns) / 1'000'000'000);
  try {
    file.model = native::model_of_compiled(entry.path);
  } catch (const Error&) {}  // damaged
  keep_used(entry);
  return file;
}

}  // namespace

std::vector<CompiledFile> list_compile_cache(const CompileCache& cache) {
  std::vector<CompiledFile> files;
  if (cache.folder.empty()) return files;
  for (const native::Entry& entry : native::entries_of(cache.folder)) files.push_back(file_of(entry));
  return files;
}

std::vector<CompiledFile> check_compile_cache(const CompileCache& cache) {
  std::vector<CompiledFile> damaged;
  if (cache.folder.empty()) return damaged;
  for (const native::Entry& entry : native::entries_of(cache.folder)) {
    try {
      native::check_compiled(entry.path);
      keep_used(entry);
    } catch (const Error&) {
      damaged.push_back(file_of(entry));
      std::error_code ignored;
      std::filesystem::remove(entry.path, ignored);
    }
  }
  return damaged;
}

uint64_t clear_compile_cache(const CompileCache& cache) {
  uint64_t freed = 0;
  if (cache.folder.empty()) return freed;
  remove_stale_partials_in(cache.folder);
  for (const native::Entry& entry : native::entries_of(cache.folder)) {
    std::error_code failed;
    if (std::filesystem::remove(entry.path, failed)) freed += entry.size_bytes;
  }
  return freed;
}

}  // namespace kvik
