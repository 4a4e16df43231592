#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/native/graph/program.h"
#include "support/row_interpreter.h"

namespace kvik::testing_support {

// A folder with a model, as tests name it: "zoo/…", "forms/…", "shared/…".
struct ModelFolder {
  std::string name;
  std::filesystem::path path;
};
inline std::ostream& operator<<(std::ostream& out, const ModelFolder& folder) { return out << folder.name; }

// Every model of tests/fixtures, and of the larger data where it is there.
std::vector<ModelFolder> model_folders();

// tests/fixtures/native-programs.txt, by folder: a summary, "open", or "refused: A PART OF THE SENTENCE".
std::map<std::string, std::string> expected_programs();
// The list has a summary for it.
bool is_expected_program(const std::string& folder);

// "2 attends (causal), 2 tables", for comparison with what is expected.
std::string summary(const native::Program& program);

// The logits of these tokens by the whole graph, a step for each stretch, as the reference backend runs it.
std::vector<std::vector<float>> reference_logits(const std::filesystem::path& folder, std::span<const TokenId> source,
                                                 std::span<const TokenId> tokens);

// The same by the programs of the folder's encoder, where it has one, and decoder. The tokens are run in two calls, beside a second
// sequence whose rows stand between.
std::vector<std::vector<float>> program_logits(const std::filesystem::path& folder, std::span<const TokenId> source,
                                               std::span<const TokenId> tokens);

// The largest difference over the largest number of `expected`.
double relative_difference(const std::vector<std::vector<float>>& expected, const std::vector<std::vector<float>>& found);

}  // namespace kvik::testing_support
