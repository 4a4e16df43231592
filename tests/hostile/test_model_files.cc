// Model files that change while a backend reads its weights from them.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kvik/error.h"
#include "support/models.h"
#include "support/paths.h"

namespace kvik::backend {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct CopiedModel {
  explicit CopiedModel(const std::string& form) {
    fs::copy(testing_support::fixtures() / "forms" / form, folder.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  testing_support::TemporaryFolder folder;
};

std::string error_of_step(Backend& backend) {
  const std::unique_ptr<Cache> cache = backend.new_cache(nullptr);
  Cache* const caches[] = {cache.get()};
  const Row row{.token = 3, .position = 0, .sequence = 0, .wants_logits = true};
  Logits logits;
  try {
    EXPECT_EQ(backend.run({&row, 1}, caches, logits), backend::RunStatus::kDone);
  } catch (const Error& e) { return e.what(); }
  return "";
}

using Open = std::shared_ptr<Backend> (*)(const fs::path& folder);
std::shared_ptr<Backend> open_natively(const fs::path& folder) { return testing_support::open_native(folder); }

struct Opened {
  const char* form;
  Open open;
};
void PrintTo(const Opened& opened, std::ostream* out) {
  *out << opened.form << (opened.open == open_natively ? ", native" : ", reference");
}

class ChangedModelFile : public testing::TestWithParam<Opened> {};

TEST_P(ChangedModelFile, TruncationIsReportedInsteadOfACrash) {
  const CopiedModel model(GetParam().form);
  const auto backend = GetParam().open(model.folder.path());
  ASSERT_EQ(error_of_step(*backend), "");
  for (const auto& entry : fs::directory_iterator(model.folder.path())) {
    if (entry.path().extension() == ".json") continue;
    ASSERT_EQ(truncate(entry.path().c_str(), 1), 0);
  }
  EXPECT_THAT(error_of_step(*backend), HasSubstr("was changed while it was in use"));
}

TEST_P(ChangedModelFile, ReplacementByRenameIsHarmless) {
  const CopiedModel model(GetParam().form);
  const auto backend = GetParam().open(model.folder.path());
  const testing_support::TemporaryFolder other;
  for (const auto& entry : fs::directory_iterator(model.folder.path())) {
    const fs::path temporary = other.write("new", "not a model");
    fs::rename(temporary, entry.path());
  }
  EXPECT_EQ(error_of_step(*backend), "");
}

std::vector<Opened> opened() {
  std::vector<Opened> all;
  for (const char* form : {"plain", "data-one-file", "data-per-tensor"}) {
    for (const Open open : {Open(testing_support::open_reference), Open(open_natively)}) all.push_back({form, open});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Forms, ChangedModelFile, testing::ValuesIn(opened()));

}  // namespace
}  // namespace kvik::backend
