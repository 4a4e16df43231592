#pragma once

#include <filesystem>

namespace kvik::testing_support {

// A file that the build has made or read, or the one of this name beside the tests on a machine that they were copied to.
inline std::filesystem::path built_file(const std::filesystem::path& built) {
  return exists(built) ? built : std::filesystem::read_symlink("/proc/self/exe").replace_filename(built.filename());
}

}  // namespace kvik::testing_support
