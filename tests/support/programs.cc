#include "support/programs.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>

#include "backend/native/compile.h"
#include "backend/native/graph/outcome.h"
#include "onnx/eval/evaluator.h"
#include "support/models.h"

namespace kvik::testing_support {
namespace {

using backend::Row;

void collect(const std::filesystem::path& below, const std::string& prefix, std::vector<ModelFolder>& folders) {
  if (!std::filesystem::is_directory(below)) return;
  std::vector<ModelFolder> found;
  for (const auto& entry : std::filesystem::directory_iterator(below)) {
    if (!entry.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(entry.path())) {
      if (file.path().extension() != ".onnx" && file.path().filename() != "onnx") continue;
      found.push_back({fmt::format("{}/{}", prefix, entry.path().filename().string()), entry.path()});
      break;
    }
  }
  std::sort(found.begin(), found.end(), [](const ModelFolder& a, const ModelFolder& b) { return a.name < b.name; });
  folders.insert(folders.end(), found.begin(), found.end());
}

// Hidden states [1, E, width] of the source, by the encoder's program or, where there is none, by its graph.
Tensor encoded(const analysis::Signature& signature, std::span<const TokenId> source) {
  const native::Program program = native::take(native::compile_encoder(signature));
  std::vector<Row> rows;
  for (size_t i = 0; i < source.size(); ++i) rows.push_back({source[i], static_cast<int>(i), 0, true});
  const std::vector<std::vector<float>> hidden = RowInterpreter(program).run(rows);
  std::vector<float> all;
  for (const std::vector<float>& row : hidden) all.insert(all.end(), row.begin(), row.end());
  const auto width = static_cast<int64_t>(hidden.front().size());
  return Tensor::of<float>({1, static_cast<int64_t>(hidden.size()), width}, all);
}

void give_source(RowInterpreter& interpreter, const native::Program& program, const Tensor& hidden) {
  std::map<int, Tensor> given;
  for (const native::SourceInput& input : program.source_inputs) given[input.port] = hidden;
  for (const int sequence : {0, 1}) interpreter.set_source(sequence, given, static_cast<int>(hidden.dim(1)));
}

}  // namespace

std::vector<ModelFolder> model_folders() {
  std::vector<ModelFolder> folders;
  collect(fixtures() / "zoo", "zoo", folders);
  collect(fixtures() / "forms", "forms", folders);
  if (!shared().empty()) {
    collect(shared() / "zoo", "shared/zoo", folders);
    collect(shared() / "fixtures" / "models", "shared/models", folders);
  }
  return folders;
}

std::map<std::string, std::string> expected_programs() {
  std::ifstream file(fixtures() / "native-programs.txt");
  std::map<std::string, std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos && line[0] != '#') lines[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return lines;
}

bool is_expected_program(const std::string& folder) {
  static const std::map<std::string, std::string> kExpected = expected_programs();
  const auto line = kExpected.find(folder);
  return line != kExpected.end() && line->second != "open" && !line->second.starts_with("refused");
}

std::string summary(const native::Program& program) {
  std::set<std::string> rules;
  for (const native::Attend& attend : program.attends) rules.insert(attend.words);
  std::string words;
  for (const std::string& rule : rules) words += (words.empty() ? "" : "; ") + rule;
  std::string line = fmt::format("{} attends ({}), {} tables", program.attends.size(), words, program.tables.size());
  if (!program.source_ops.empty()) line += ", source program";
  if (!program.registers.empty()) line += fmt::format(", {} registers", program.registers.size());
  if (!program.unsupported_tokens.empty()) line += fmt::format(", {} tokens unsupported", program.unsupported_tokens.size());
  return program.one_token ? line + ", one token at a time" : line;
}

std::vector<std::vector<float>> reference_logits(const std::filesystem::path& folder, std::span<const TokenId> source,
                                                 std::span<const TokenId> tokens) {
  const std::shared_ptr<backend::Backend> backend = open_reference(folder);
  std::shared_ptr<const backend::Source> encoded_source;
  if (backend->traits().needs_source) {
    const std::vector<int64_t> ids(source.begin(), source.end());
    const Tensor input = Tensor::of<int64_t>({static_cast<int64_t>(ids.size())}, ids);
    encoded_source = backend->encode(std::span(&input, 1)).at(0);
  }
  const std::unique_ptr<backend::Cache> cache = backend->new_cache(encoded_source);
  backend::Cache* caches[] = {cache.get()};
  std::vector<std::vector<float>> result;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Row row{tokens[i], static_cast<int>(i), 0, true};
    backend::Logits logits;
    if (backend->run(std::span(&row, 1), caches, logits) != backend::RunStatus::kDone) throw Error(Code::kTooLarge, "no memory");
    result.emplace_back(logits.row(0).begin(), logits.row(0).end());
  }
  return result;
}

std::vector<std::vector<float>> program_logits(const std::filesystem::path& folder, std::span<const TokenId> source,
                                               std::span<const TokenId> tokens) {
  const analysis::Signature signature = analysis::analyze(folder);
  const native::Program program = native::take(native::compile_decoder(signature));
  RowInterpreter interpreter(program);
  if (!program.source_inputs.empty()) give_source(interpreter, program, encoded(signature, source));
  const size_t half = tokens.size() / 2;
  std::vector<std::vector<float>> result;
  for (const auto& [first, last] : {std::pair{size_t{0}, half}, std::pair{half, tokens.size()}}) {
    std::vector<Row> rows;
    for (size_t i = first; i < last; ++i) {
      rows.push_back({tokens[i], static_cast<int>(i), 0, true});
      rows.push_back({tokens[tokens.size() - 1 - i], static_cast<int>(i), 1, true});
    }
    const std::vector<std::vector<float>> logits = interpreter.run(rows);
    for (size_t i = 0; i < logits.size(); i += 2) result.push_back(logits[i]);
  }
  return result;
}

double relative_difference(const std::vector<std::vector<float>>& expected, const std::vector<std::vector<float>>& found) {
  if (expected.size() != found.size()) return INFINITY;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].size() != found[i].size()) return INFINITY;
    for (size_t j = 0; j < expected[i].size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i][j])));
      const double here = std::abs(static_cast<double>(expected[i][j]) - static_cast<double>(found[i][j]));
      if (std::isnan(here)) return INFINITY;
      difference = std::max(difference, here);
    }
  }
  return difference / std::max(largest, 1e-9);
}

}  // namespace kvik::testing_support
