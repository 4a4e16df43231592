// The tree is the architecture: what design and style promise about it is checked here.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <gmock/gmock.h>
#include <regex>
#include <sstream>

#include "support/paths.h"

namespace kvik {
namespace {

// A folder may include those before it. docs/architecture.md explains the order.
const std::vector<std::string> kOrder = {"base",      "tensor", "onnx",   "analysis", "kv",  "kernels", "backend", "audio", "text",
                                         "constrain", "sample", "engine", "verify",   "api", "hub",     "server",  "cli"};

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

// Files of src/text itself are between steps/ and load/. template/ stands alone: only src/text itself includes it.
TEST(Tree, IncludesOfTheTokenizersPointOneWay) {
  const std::vector<std::string> order = {"unicode", "regex", "models", "steps", "", "load"};
  const auto rank = [&](const std::string& folder) { return std::find(order.begin(), order.end(), folder) - order.begin(); };
  static const std::regex kInclude("#include \"text/(?:([a-z]+)/)?[a-z_]+\\.h\"");
  int n_includes = 0;
  for (const Source& source : sources_below("src/text")) {
    const std::string first = std::next(source.path.begin(), 2)->string();
    const std::string folder = first == source.path.filename() ? "" : first;
    for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match, ++n_includes) {
      const std::string included = (*match)[1];
      if (included == "template") {
        EXPECT_THAT(folder, testing::AnyOf("", "template")) << source.path;
      } else {
        EXPECT_LE(rank(included), rank(folder)) << source.path << " includes text/" << included;
      }
    }
  }
  EXPECT_GT(n_includes, 100);
}

// http/ and json/ are below all; each interface is on its own; src/server itself joins them.
TEST(Tree, IncludesOfTheServerPointOneWay) {
  const std::vector<std::string> order = {"http", "json", "service", "chat", "openai", "ollama", "web", ""};
  const auto rank = [&](const std::string& folder) { return std::find(order.begin(), order.end(), folder) - order.begin(); };
  static const std::regex kInclude("#include \"([a-z_]+)/(?:([a-z]+)/)?[a-z_]+\\.h\"");
  int n_includes = 0;
  for (const Source& source : sources_below("src/server")) {
    const std::string first = std::next(source.path.begin(), 2)->string();
    const std::string folder = first == source.path.filename() ? "" : first;
    for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match, ++n_includes) {
      EXPECT_THAT((*match)[1].str(), testing::AnyOf("kvik", "base", "server"))
          << source.path << ": what it needs belongs into include/kvik/";
      if ((*match)[1] != "server") continue;
      const std::string included = (*match)[2];
      EXPECT_LE(rank(included), rank(folder)) << source.path << " includes server/" << included;
      EXPECT_FALSE(folder == "ollama" && included == "openai") << source.path;
    }
  }
  EXPECT_GT(n_includes, 100);
}

// The folders of the native compiler in reading order: data and probing, then one per stage. docs/architecture.md explains them.
const std::vector<std::string> kCompilerOrder = {"graph",  "plan",  "probe", "specialize", "label",  "attention",
                                                 "tables", "lower", "fuse",  "place",      "execute"};
const std::vector<std::string> kStages = {"specialize", "label", "attention", "tables", "lower", "fuse", "place", "execute"};

size_t compiler_rank_of(const std::string& folder) {
  return static_cast<size_t>(std::find(kCompilerOrder.begin(), kCompilerOrder.end(), folder) - kCompilerOrder.begin());
}

TEST(Tree, IncludesOfTheCompilerPointOneWay) {
  static const std::regex kInclude("#include \"backend/native/([a-z_]+)(/|\\.h)");
  int n_includes = 0;
  for (const Source& source : sources_below("src/backend/native")) {
    const std::string folder = std::next(source.path.begin(), 3)->string();
    if (folder == source.path.filename()) continue;  // the driver and the backend, above all stages
    EXPECT_LT(compiler_rank_of(folder), kCompilerOrder.size()) << source.path << ": no stage is called " << folder;
    for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match, ++n_includes) {
      EXPECT_LE(compiler_rank_of((*match)[1]), compiler_rank_of(folder)) << source.path << " includes " << (*match)[1];
    }
  }
  EXPECT_GT(n_includes, 100);
}

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

TEST(Tree, TheCommandLineUsesOnlyThePublicApi) {
  static const std::regex kInclude("#include \"([a-z_]+)/");
  for (const Source& source : sources_below("src/cli")) {
    for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match) {
      EXPECT_THAT((*match)[1].str(), testing::AnyOf("kvik", "base", "cli")) << source.path << ": what it needs belongs into include/kvik/";
    }
  }
}

TEST(Tree, ThePythonModuleUsesOnlyThePublicApi) {
  static const std::regex kInclude("#include \"([a-z_]+)/");
  const std::vector<Source> sources = sources_below("python/src");
  EXPECT_GT(sources.size(), 10u);
  for (const Source& source : sources) {
    for (std::sregex_iterator match(source.text.begin(), source.text.end(), kInclude), end; match != end; ++match)
      EXPECT_EQ((*match)[1].str(), "kvik") << source.path << ": what it needs belongs into include/kvik/";
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
