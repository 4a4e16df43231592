// The structure of the tree: which folder may include which, and the rules of CONTRIBUTING.md that can be checked by reading files.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "support/paths.h"

namespace kvik {
namespace {

// A folder of src may include those before it. docs/architecture.md explains the order.
const std::vector<std::string> kOrder = {"base",      "tensor", "onnx",   "analysis", "kv",  "kernels", "backend", "audio", "text",
                                         "constrain", "sample", "engine", "verify",   "api", "hub",     "server",  "cli"};

// A subfolder may include itself and those in earlier groups. "": the files of the folder itself.
struct Subfolders {
  std::string folder;  // below src
  std::vector<std::set<std::string>> groups;
};
const std::vector<Subfolders> kSubfolders = {
    {"onnx", {{""}, {"eval"}}},
    {"kernels", {{""}, {"cpu"}, {"device"}, {"cuda"}}},
    {"backend", {{""}, {"graph"}, {"native", "ort", "reference"}}},
    // Data and probing, then the stages of the compiler in reading order, then its driver and the backend.
    {"backend/native",
     {{"graph"},
      {"plan"},
      {"probe"},
      {"specialize"},
      {"label"},
      {"attention"},
      {"tables"},
      {"lower"},
      {"fuse"},
      {"place"},
      {"execute"},
      {""}}},
    {"text", {{"unicode"}, {"regex"}, {"models"}, {"steps", "template"}, {""}, {"load"}}},
    {"constrain", {{""}, {"notation"}, {"schema"}}},
    {"engine", {{""}, {"speech"}}},
    {"api", {{""}, {"c"}}},
    {"server", {{"http"}, {"json"}, {"service"}, {"chat"}, {"openai", "ollama"}, {"web"}, {""}}},
};

struct Source {
  std::filesystem::path path;  // below the root
  std::string text;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Source> sources_below(const std::string& folder) {
  std::vector<Source> sources;
  const std::filesystem::path root = testing_support::source_root();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".cc" || extension == ".c" || extension == ".h" || extension == ".cu" || extension == ".cuh")
      sources.push_back({std::filesystem::relative(entry.path(), root), read(entry.path())});
  }
  return sources;
}

size_t rank_of(const std::string& folder) { return static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), folder) - kOrder.begin()); }

TEST(Tree, EveryFolderOfSrcIsInTheOrder) {
  for (const auto& entry : std::filesystem::directory_iterator(testing_support::source_root() / "src")) {
    EXPECT_LT(rank_of(entry.path().filename().string()), kOrder.size()) << entry.path();
  }
}

TEST(Tree, TheArchitectureListsTheFoldersInThisOrder) {
  static const std::regex kRow("\n\\| `src/([a-z]+)/`");
  const std::string document = read(testing_support::source_root() / "docs" / "architecture.md");
  std::vector<std::string> listed;
  for (std::sregex_iterator match(document.begin(), document.end(), kRow), end; match != end; ++match) listed.push_back((*match)[1]);
  EXPECT_EQ(listed, kOrder);
}

TEST(Tree, IncludesPointOneWay) {
  static const std::regex kInclude("#include \"([a-z_]+)/");
  for (const Source& source : sources_below("src")) {
    const std::string folder = std::next(source.path.begin())->string();
    for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match) {
      const std::string included = (*match)[1];
      if (included == "kvik") continue;
      EXPECT_LE(rank_of(included), rank_of(folder)) << source.path << " includes " << included << "/";
    }
  }
}

size_t group_of(const Subfolders& subfolders, const std::string& name) {
  const auto found = std::ranges::find_if(subfolders.groups, [&](const std::set<std::string>& group) { return group.contains(name); });
  return static_cast<size_t>(found - subfolders.groups.begin());
}

// The part of a path before its first slash; empty if there is none.
std::string first_folder(const std::string& path) {
  const size_t slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

TEST(Tree, IncludesOfSubfoldersPointOneWay) {
  for (const Subfolders& subfolders : kSubfolders) {
    const std::regex include("#include \"" + subfolders.folder + "/([^\"]+)\"");
    const std::string root = "src/" + subfolders.folder;
    int n_includes = 0;
    for (const Source& source : sources_below(root)) {
      const std::string own = first_folder(source.path.lexically_relative(root).string());
      const size_t group = group_of(subfolders, own);
      EXPECT_LT(group, subfolders.groups.size()) << source.path << ": this folder is not in the order";
      for (std::sregex_iterator match(source.text.begin(), source.text.end(), include), end; match != end; ++match, ++n_includes) {
        const std::string included = first_folder((*match)[1]);
        EXPECT_TRUE(included == own || group_of(subfolders, included) < group) << source.path << " includes " << (*match)[1];
      }
    }
    EXPECT_GT(n_includes, 10) << root;
  }
}

const std::vector<std::string> kStages = {"specialize", "label", "attention", "tables", "lower", "fuse", "place", "execute"};

TEST(Tree, EveryStageOfTheCompilerHasAHeaderThatIsItsContract) {
  const std::filesystem::path native = testing_support::source_root() / "src" / "backend" / "native";
  for (const std::string& stage : kStages) {
    const std::string header = read(native / stage / (stage + ".h"));
    for (const char* part : {"// In: ", "// Out: ", "// Afterwards: "}) EXPECT_THAT(header, testing::HasSubstr(part)) << stage;
  }
}

// A refusal is a value (graph/refusal.h). What the reference evaluator throws is caught in one function of probe/.
TEST(Tree, StagesOfTheCompilerNeitherThrowNorCatch) {
  static const std::regex kException("\\b(throw|catch)\\b");
  for (const std::string stage : {"specialize", "label", "attention"}) {
    for (const Source& source : sources_below("src/backend/native/" + stage)) {
      EXPECT_FALSE(std::regex_search(source.text, kException)) << source.path << ": return a Refusal instead";
    }
  }
  for (const std::string stage : {"probe", "tables"}) {
    for (const Source& source : sources_below("src/backend/native/" + stage)) {
      const std::string name = source.path.stem();
      if (name == "evaluation" || name == "table_rows") continue;  // where kernels are called, and what runs while tokens are decoded
      EXPECT_FALSE(std::regex_search(source.text, kException)) << source.path << ": return a Refusal, or call evaluate()";
    }
  }
}

TEST(Tree, PlansDependOnNeitherDeviceNorCompiler) {
  static const std::regex kInclude("#include \"((backend|kernels)/[a-z_/.]+)\"");
  for (const Source& source : sources_below("src/backend/native/plan")) {
    for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match) {
      const std::string included = (*match)[1];
      const bool allowed = included.starts_with("backend/native/plan/") || included == "backend/native/graph/axes.h" ||
                           included == "backend/native/graph/attention_spec.h" || included == "kernels/ops.h";
      EXPECT_TRUE(allowed) << source.path << " includes " << included;
    }
  }
}

TEST(Tree, ServerCommandLineAndPythonUseOnlyThePublicApi) {
  static const std::regex kInclude("#include \"([a-z_]+)/");
  const std::map<std::string, std::set<std::string>> allowed = {
      {"src/server", {"kvik", "base", "server"}}, {"src/cli", {"kvik", "base", "cli"}}, {"python/src", {"kvik"}}};
  for (const auto& [folder, names] : allowed) {
    int n_includes = 0;
    for (const Source& source : sources_below(folder)) {
      for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match, ++n_includes)
        EXPECT_TRUE(names.contains((*match)[1]))
            << source.path << " includes " << (*match)[1] << "/; what it needs belongs in include/kvik/";
    }
    EXPECT_GT(n_includes, 10) << folder;
  }
}

// Output that bypasses output.cc is lost silently if the disk is full; input that bypasses input.cc treats an error as the end.
TEST(Tree, TheCommandLineWritesAndReadsInOnePlace) {
  static const std::regex kStreams("std::c(out|err|in)\\b|fmt::print\\(|\\bprintf\\(|\\bputs\\(|fwrite\\(|getline\\(|<iostream>");
  for (const Source& source : sources_below("src/cli")) {
    if (source.path.filename() == "output.cc" || source.path.filename() == "input.cc") continue;
    std::smatch match;
    EXPECT_FALSE(std::regex_search(source.text, match, kStreams)) << source.path << " has '" << match.str() << "'";
  }
}

TEST(Tree, NoFileUnderSrcNamesAModelFamily) {
  static const std::regex kFamilies(
      "\\bllama|[^o]llama|qwen|gpt2|gpt[_-]?neox?|gptj|mistral|gemma|phi[-_]?[234]|bloom|falcon|marian|bart|\\bt5\\b|whisper|deepseek|"
      "\\bmpt\\b|opus",
      std::regex::icase);
  for (const Source& source : sources_below("src")) {
    std::smatch match;
    EXPECT_FALSE(std::regex_search(source.text, match, kFamilies))
        << source.path << " names '" << match.str() << "': ask what a model can do, not what it is called";
  }
}

TEST(Tree, NoFileHasMoreThan500Lines) {
  for (const char* folder : {"src", "include", "python", "tests", "bench", "fuzz"}) {
    for (const Source& source : sources_below(folder)) {
      EXPECT_LE(std::count(source.text.begin(), source.text.end(), '\n'), 500) << source.path << ": look for the missing file";
    }
  }
}

TEST(Tree, EveryHeaderHasPragmaOnce) {
  for (const char* folder : {"src", "include", "python", "tests"}) {
    for (const Source& source : sources_below(folder)) {
      if (source.path.extension() != ".h" && source.path.extension() != ".cuh") continue;
      EXPECT_THAT(source.text, testing::HasSubstr("#pragma once")) << source.path;
    }
  }
}

TEST(Tree, TheTrackedTreeStaysSmall) {
  const std::filesystem::path root = testing_support::source_root();
  FILE* pipe = popen(("git -C '" + root.string() + "' ls-files -z").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string names;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) names.append(buffer, n);
  pclose(pipe);
  uintmax_t total = 0, zoo = 0;
  std::stringstream list(names);
  for (std::string name; std::getline(list, name, '\0');) {
    std::error_code missing;
    const uintmax_t size = std::filesystem::file_size(root / name, missing);
    if (missing) continue;
    total += size;
    if (name.starts_with("tests/fixtures/zoo/")) zoo += size;
  }
  EXPECT_LT(total, uintmax_t{52} << 20);
  EXPECT_LT(zoo, uintmax_t{8} << 20);
}

TEST(Tree, CiRunsTheTestCommandOfTheReadme) {
  const std::filesystem::path root = testing_support::source_root();
  EXPECT_THAT(read(root / ".ci" / "run"), testing::HasSubstr("./dev test"));
  EXPECT_THAT(read(root / "README.md"), testing::HasSubstr("./dev test"));
  EXPECT_THAT(read(root / "README.md"), testing::HasSubstr("./dev demo"));
}

}  // namespace
}  // namespace kvik
