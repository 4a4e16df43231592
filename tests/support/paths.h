#pragma once

#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace kvik::testing_support {

std::filesystem::path source_root();

// tests/fixtures of the tree; always there.
std::filesystem::path fixtures();

// The larger data beside a developer's checkout; empty where it is absent.
std::filesystem::path shared();

// For instances of a test: the name with an underscore for each character that gtest does not accept.
std::string test_name_of(std::string name);
// The same for parameters with a member `name`.
struct NameOfParam {
  template <class Param>
  std::string operator()(const testing::TestParamInfo<Param>& info) const {
    return test_name_of(info.param.name);
  }
};

// A fresh folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }
  // Writes a file and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

}  // namespace kvik::testing_support

// In a test that cannot do without the larger data.
#define KVIK_NEEDS_SHARED() \
  if (kvik::testing_support::shared().empty()) GTEST_SKIP() << "../shared is not beside this checkout"
