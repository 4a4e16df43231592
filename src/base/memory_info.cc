#include "base/memory_info.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>

namespace kvik {
namespace {

size_t available_in_system() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    size_t kilobytes = 0;
    file >> kilobytes >> unit;
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

// What the limit of a container leaves; nothing if there is no limit.
std::optional<size_t> available_in_container() {
  size_t limit = 0, used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max"), used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return std::nullopt;  // "max", or no such file
  return limit > used ? limit - used : 0;
}

}  // namespace

size_t available_memory_bytes() {
  const size_t in_system = available_in_system();
  return std::min(in_system, available_in_container().value_or(in_system));
}

size_t largest_cache_bytes(const std::filesystem::path& folder) {
  size_t largest = 0;
  for (int i = 0;; ++i) {
    std::ifstream file(folder / ("index" + std::to_string(i)) / "size");
    size_t size = 0;
    char unit = 0;
    if (!(file >> size)) return largest;
    file >> unit;
    largest = std::max(largest, unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size);
  }
}

size_t shared_cache_bytes() {
  static const size_t bytes = [] {
    if (const size_t found = largest_cache_bytes("/sys/devices/system/cpu/cpu0/cache"); found > 0) return found;
    const long found = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return found > 0 ? static_cast<size_t>(found) : size_t{8} << 20;
  }();
  return bytes;
}

}  // namespace kvik
