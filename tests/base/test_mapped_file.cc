#include <chrono>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik {
namespace {

std::string error_of(const std::filesystem::path& path) {
  try {
    MappedFile::open(path);
  } catch (const Error& e) { return e.what(); }
  return "";
}

TEST(MappedFile, HasTheBytesOfTheFile) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(MappedFile::open(folder.write("a", "hello"))->text(), "hello");
}

TEST(MappedFile, EmptyFileIsNotAnError) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(MappedFile::open(folder.write("a", ""))->size_bytes(), 0u);
}

TEST(MappedFile, FollowsSymbolicLinks) {
  const testing_support::TemporaryFolder folder;
  folder.write("blob", "weights");
  std::filesystem::create_symlink("blob", folder.path() / "link");
  EXPECT_EQ(MappedFile::open(folder.path() / "link")->text(), "weights");
}

TEST(MappedFile, FolderPipeAndMissingFileAreRefusedWithoutBlocking) {
  const testing_support::TemporaryFolder folder;
  EXPECT_NE(error_of(folder.path()).find("is a folder"), std::string::npos);
  EXPECT_NE(error_of(folder.path() / "none").find("cannot open"), std::string::npos);
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of(folder.path() / "pipe").find("not a regular file"), std::string::npos);
}

std::string change_of(const MappedFile& file) {
  try {
    file.check_unchanged();
  } catch (const Error& e) { return e.what(); }
  return "";
}

TEST(MappedFile, ChangeInPlaceIsReported) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path path = folder.write("weights", "0123456789");
  const auto file = MappedFile::open(path);
  EXPECT_EQ(change_of(*file), "");
  ASSERT_EQ(truncate(path.c_str(), 4), 0);
  EXPECT_NE(change_of(*file).find("it had 10 bytes and now has 4"), std::string::npos) << change_of(*file);
  const auto again = MappedFile::open(path);
  const auto modified = std::filesystem::last_write_time(path);
  folder.write("weights", "abcd");
  std::filesystem::last_write_time(path, modified + std::chrono::nanoseconds(1));
  EXPECT_NE(change_of(*again).find("was changed"), std::string::npos) << "same size, other bytes";
}

TEST(MappedFile, ReplacedOrDeletedFileKeepsItsBytes) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path path = folder.write("weights", "old");
  const auto file = MappedFile::open(path);
  std::filesystem::rename(folder.write("new", "longer"), path);
  EXPECT_EQ(change_of(*file), "");
  std::filesystem::remove(path);
  EXPECT_EQ(change_of(*file), "");
  EXPECT_EQ(file->text(), "old");
}

TEST(Json, ErrorNamesTheFileAndThePosition) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      parse_json(text, "config.json");
      return "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kBadModel);
      return e.what();
    }
  };
  EXPECT_EQ(message("{\"a\": [1, 2"), "config.json: not valid JSON: it ends after 11 bytes; the file may be truncated");
  EXPECT_EQ(message("{\"a\": x}"), "config.json: not valid JSON at byte 7 of 8");
}

}  // namespace
}  // namespace kvik
