// Saving to paths that are not regular files, over links, on a full disk, and after processes were killed while saving.
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/new_file.h"
#include "kvik/error.h"
#include "kvik/kvik.h"
#include "support/paths.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Save : public testing::Test {
 protected:
  std::vector<std::string> partial_files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".partial") names.push_back(entry.path().filename().string());
    }
    return names;
  }

  // A process that has written half of the file and is killed.
  void save_and_be_killed(const fs::path& path) const {
    const pid_t child = fork();
    if (child == 0) {
      NewFile file(path);
      file.write(std::as_bytes(std::span("half", 4)));
      raise(SIGKILL);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  testing_support::TemporaryFolder folder_;
  fs::path file_ = folder_.path() / "chat.kv";
};

TEST_F(Save, RefusesToReplaceWhatIsNotARegularFile) {
  fs::create_directory(folder_.path() / "folder");
  ASSERT_EQ(mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  for (const fs::path& path : {fs::path("/dev/null"), fs::path("/dev/full"), folder_.path() / "folder", folder_.path() / "pipe"}) {
    struct stat before {
    }, after{};
    ASSERT_EQ(stat(path.c_str(), &before), 0);
    EXPECT_THAT([&] { write_file(path, "new"); }, ThrowsMessage<Error>(HasSubstr("a regular file or a new name was expected"))) << path;
    ASSERT_EQ(stat(path.c_str(), &after), 0);
    EXPECT_EQ(before.st_mode, after.st_mode) << path;
    EXPECT_EQ(before.st_ino, after.st_ino) << path;
  }
  EXPECT_THAT(partial_files(), IsEmpty());
}

TEST_F(Save, RefusesADeviceNodeAlsoAsRoot) {
  const fs::path node = folder_.path() / "node";
  if (mknod(node.c_str(), S_IFCHR | 0600, 0x103) != 0) GTEST_SKIP() << "only root makes device nodes";
  EXPECT_THAT([&] { write_file(node, "new"); }, ThrowsMessage<Error>(HasSubstr("it is a device")));
  EXPECT_TRUE(fs::is_character_file(node));
}

TEST_F(Save, RefusesAPipeThatTookTheNameWhileItWasWriting) {
  NewFile file(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT([&] { file.commit(); }, ThrowsMessage<Error>(HasSubstr("it is a pipe")));
  EXPECT_TRUE(fs::is_fifo(file_));
}

TEST_F(Save, FollowsLinksToTheFileTheyMean) {
  fs::create_directory(folder_.path() / "elsewhere");
  const fs::path target = folder_.path() / "elsewhere" / "target";
  write_file(target, "old");
  fs::create_symlink("elsewhere/target", folder_.path() / "link");
  fs::create_symlink(folder_.path() / "link", folder_.path() / "link of a link");
  for (const char* name : {"link", "link of a link"}) {
    write_file(folder_.path() / name, name);
    EXPECT_EQ(content_of(target), name);
    EXPECT_TRUE(fs::is_symlink(folder_.path() / name));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(target)));
  }
}

TEST_F(Save, CreatesTheTargetOfADanglingLink) {
  fs::create_symlink("absent", folder_.path() / "link");
  write_file(folder_.path() / "link", "new");
  EXPECT_EQ(content_of(folder_.path() / "absent"), "new");
  EXPECT_TRUE(fs::is_symlink(folder_.path() / "link"));
}

TEST_F(Save, RefusesLinksInACircleAndLinksToDevices) {
  fs::create_symlink("two", folder_.path() / "one");
  fs::create_symlink("one", folder_.path() / "two");
  EXPECT_THROW(write_file(folder_.path() / "one", "new"), Error);
  fs::create_symlink("/dev/null", folder_.path() / "null");
  EXPECT_THAT([&] { write_file(folder_.path() / "null", "new"); }, ThrowsMessage<Error>(HasSubstr("it is a device")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(Save, KeepsThePermissionsOfTheFileItReplaces) {
  write_file(file_, "old");
  fs::permissions(file_, fs::perms::owner_read | fs::perms::owner_write);
  write_file(file_, "new");
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Save, RemovesPartialFilesOfAKilledSave) {
  write_file(file_, "old");
  save_and_be_killed(file_);
  save_and_be_killed(file_);
  EXPECT_EQ(partial_files().size(), 1u);  // the second found the first
  EXPECT_EQ(content_of(file_), "old");
  write_file(file_, "new");
  EXPECT_THAT(partial_files(), IsEmpty());
  EXPECT_EQ(content_of(file_), "new");
}

TEST_F(Save, RemovesOnlyPartialFilesOfItsOwnName) {
  const std::vector<std::string> others = {"chat.kv.partial", "chat.kv.x-1.partial", "chat.kv.1-.partial", "other.kv.1-1.partial",
                                           "chat.kv.1-1"};
  for (const std::string& name : others) folder_.write(name, "kept");
  const fs::path stale = folder_.write("chat.kv.1-1.partial", "stale");
  write_file(file_, "new");
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_.path() / name)) << name;
  EXPECT_FALSE(fs::exists(stale));
}

TEST_F(Save, DoesNotRemoveTheFileOfARunningSave) {
  NewFile slow(file_);
  slow.write(std::as_bytes(std::span("slow", 4)));
  write_file(file_, "quick");
  EXPECT_EQ(content_of(file_), "quick");
  EXPECT_EQ(partial_files().size(), 1u);
  slow.commit();
  EXPECT_EQ(content_of(file_), "slow");
  EXPECT_THAT(partial_files(), IsEmpty());
}

// Each process saves again and again while the others look for stale files.
TEST_F(Save, ManyProcessesThatSaveOneFileNeverLoseOne) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int status = 0;
      try {
        for (int round = 0; round < 200; ++round) write_file(file_, std::string(1000, static_cast<char>('a' + i)));
      } catch (const Error&) { status = 1; }
      _exit(status);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const std::string content = content_of(file_);
  EXPECT_EQ(content, std::string(1000, content.empty() ? '?' : content[0]));
  EXPECT_THAT(partial_files(), IsEmpty());
}

// A file size limit simulates a full disk.
TEST_F(Save, AFullDiskIsAnErrorAndTheOldFileStays) {
  write_file(file_, "old");
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1000, before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT([&] { write_file(file_, std::string(5000, 'x')); }, ThrowsMessage<Error>(HasSubstr("could not be written: File too large")));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(content_of(file_), "old");
  EXPECT_THAT(partial_files(), IsEmpty());
}

TEST_F(Save, ASessionIsSavedThroughALinkAndNeverOverADevice) {
  const Model model = Model::load((testing_support::source_root() / "models" / "fable").string());
  Session session = model.session();
  ASSERT_EQ(session.append(65), AppendStatus::kDone);
  fs::create_symlink("chat.kv", folder_.path() / "link");
  session.save(folder_.path() / "link");
  EXPECT_EQ(model.load_session(file_).length(), 1);
  EXPECT_THAT([&] { session.save("/dev/null"); }, ThrowsMessage<Error>(HasSubstr("it is a device")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace kvik
