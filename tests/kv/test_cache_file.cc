#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "kv/cache_file.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik::kv {
namespace {

namespace fs = std::filesystem;

SavedCache some_cache() {
  SavedCache cache{.model = "0123", .form = "a form", .tokens = {1, 2, 3}, .logits = {0.5f, -1.0f}, .random = RandomState{~0ull, 7}};
  cache.contents.push_back(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  cache.contents.push_back(Tensor(DType::kU8, {0}));
  cache.contents.push_back(Tensor::of<int64_t>({1}, {-9}));
  return cache;
}

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

std::string error_of(const fs::path& path) {
  try {
    read_cache(path);
    return "";
  } catch (const Error& e) { return e.what(); }
}

// Writes a file with this header, no contents and a valid checksum.
void write_with_header(const fs::path& path, const std::string& header) {
  std::string content = "kvik cache 1\n";
  content.resize(16);
  const uint64_t size_bytes = header.size();
  content.append(reinterpret_cast<const char*>(&size_bytes), sizeof size_bytes);
  content += header;
  Hash hash;
  hash.add(std::as_bytes(std::span(content)));
  const uint64_t value = hash.value();
  content.append(reinterpret_cast<const char*>(&value), sizeof value);
  write(path, content);
}

class CacheFile : public ::testing::Test {
 protected:
  testing_support::TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "a.kv";
};

TEST_F(CacheFile, ReadsBackWhatWasWritten) {
  const SavedCache written = some_cache();
  write_cache(path_, written);
  const SavedCache found = read_cache(path_);
  EXPECT_EQ(found.model, written.model);
  EXPECT_EQ(found.form, written.form);
  EXPECT_EQ(found.tokens, written.tokens);
  EXPECT_EQ(found.logits, written.logits);
  ASSERT_TRUE(found.random);
  EXPECT_EQ(found.random->seed, ~0ull);
  EXPECT_EQ(found.random->position, 7u);
  ASSERT_EQ(found.contents.size(), written.contents.size());
  for (size_t i = 0; i < found.contents.size(); ++i) {
    EXPECT_EQ(found.contents[i].dims(), written.contents[i].dims());
    EXPECT_TRUE(std::ranges::equal(found.contents[i].bytes(), written.contents[i].bytes()));
  }
}

TEST_F(CacheFile, EveryChangedByteAndEveryTruncationIsDetected) {
  write_cache(path_, some_cache());
  const std::string whole = read(path_);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    write(path_, changed);
    EXPECT_THAT(error_of(path_), ::testing::StartsWith(path_.string() + ": ")) << "byte " << i;
    write(path_, whole.substr(0, i));
    EXPECT_THAT(error_of(path_), ::testing::StartsWith(path_.string() + ": ")) << "truncated to " << i;
  }
}

TEST_F(CacheFile, InvalidHeadersAreRefused) {
  for (const char* header : {
           "",
           "[]",
           "null",
           "{}",
           "{\"model\":1}",
           R"({"model":"","form":"","tokens":-1,"logits":0,"contents":[]})",
           R"({"model":"","form":"","tokens":1e30,"logits":0,"contents":[]})",
           R"({"model":"","form":"","tokens":9007199254740992,"logits":0,"contents":[]})",
           R"({"model":"","form":"","tokens":5,"logits":0,"contents":[]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"contents":[[8,[0]]]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"contents":[[99999999999,[1]]]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"contents":[[1,[4294967296,4294967296,4294967296]]]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"contents":[[1,[-1]]]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"contents":[[1,[1e30]]]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"contents":[[1,"a"]]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"random":[-1e300,0],"contents":[]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"random":7,"contents":[]})",
           R"({"model":"","form":"","tokens":0,"logits":0,"contents":{"a":1}})",
       }) {
    write_with_header(path_, header);
    EXPECT_THAT(error_of(path_), ::testing::StartsWith(path_.string() + ": ")) << header;
  }
}

TEST_F(CacheFile, OtherFilesAreRefused) {
  write(path_, "a text");
  EXPECT_THAT(error_of(path_), ::testing::HasSubstr("not a cache saved by this version of Kvik"));
  write(path_, "");
  EXPECT_THAT(error_of(path_), ::testing::HasSubstr("not a cache saved by this version of Kvik"));
  EXPECT_THROW(read_cache(folder_.path() / "absent"), Error);
}

// Simulates a full disk with a limit on file sizes.
class NoRoom {
 public:
  explicit NoRoom(rlim_t size_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{size_bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~NoRoom() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(CacheFile, FailedWriteKeepsTheOldFileAndLeavesNoOther) {
  EXPECT_THROW(write_cache(folder_.path() / "absent" / "a.kv", some_cache()), Error);
  write_cache(path_, some_cache());
  SavedCache other = some_cache();
  other.contents.push_back(Tensor(DType::kU8, {1 << 20}));
  {
    const NoRoom no_room(1 << 16);
    EXPECT_THROW(write_cache(path_, other), Error);
  }
  EXPECT_EQ(read_cache(path_).contents.size(), some_cache().contents.size());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

}  // namespace
}  // namespace kvik::kv
