#include "support/paths.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace kvik::testing_support {

std::filesystem::path source_root() { return KVIK_SOURCE_DIR; }

std::filesystem::path fixtures() { return source_root() / "tests" / "fixtures"; }

std::filesystem::path shared() {
  const std::filesystem::path path = source_root() / ".." / "shared";
  return std::filesystem::is_directory(path / "zoo") ? path : std::filesystem::path();
}

std::string test_name_of(std::string name) {
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "kvik-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::write(const std::string& name, std::string_view bytes) const {
  const std::filesystem::path path = path_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace kvik::testing_support
