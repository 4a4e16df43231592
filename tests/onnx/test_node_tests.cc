#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

#include "kvik/error.h"
#include "onnx/eval/evaluator.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/reader.h"
#include "support/paths.h"

// The ONNX project's own tests of its operators: a model of mostly one node, inputs, and the outputs that its reference
// gives. Outputs must have the type and shape exactly, and the numbers within the tolerances of ONNX's own runner
// (relative 1e-3; absolute 1e-5, for some of its cases say so and sums near zero have no relative precision).
namespace kvik::onnx {
namespace {

namespace fs = std::filesystem;

constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-5;

// Beside the test program, unpacked once. The last step is a rename, so that a broken run leaves nothing behind.
fs::path unpacked_node_tests() {
  const fs::path target = fs::read_symlink("/proc/self/exe").parent_path() / "onnx-node-tests";
  if (fs::exists(target / "node")) return target / "node";
  const fs::path archive = testing_support::shared() / "fixtures" / "onnx-node-tests-1.22.tar.xz";
  const fs::path fresh = target.string() + fmt::format(".{}", getpid());
  fs::create_directories(fresh);
  const std::string command = fmt::format("tar -xJf '{}' -C '{}'", archive.string(), fresh.string());
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot unpack " + archive.string());
  fs::remove_all(target);
  fs::rename(fresh, target);
  return target / "node";
}

bool close(double found, double expected) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return found == expected;
  return std::fabs(found - expected) <= kAbsolute + kRelative * std::fabs(expected);
}

bool same(double found, double expected) { return close(found, expected); }
bool same(const std::string& found, const std::string& expected) { return found == expected; }

template <class T>
std::string element_difference(const Tensor& found, const Tensor& expected) {
  for (size_t i = 0; i < found.data<T>().size(); ++i) {
    const T a = found.data<T>()[i];
    const T b = expected.data<T>()[i];
    if (!same(a, b)) return fmt::format("element {} is {}, {} was expected", i, a, b);
  }
  return {};
}

std::string complex_difference(const Tensor& found, const Tensor& expected) {
  for (size_t i = 0; i < found.data<std::complex<float>>().size(); ++i) {
    const std::complex<float> a = found.data<std::complex<float>>()[i];
    const std::complex<float> b = expected.data<std::complex<float>>()[i];
    if (!close(a.real(), b.real()) || !close(a.imag(), b.imag())) return fmt::format("element {} differs", i);
  }
  return {};
}

std::string difference(const Tensor& given, const Tensor& wanted) {
  if (given.dtype() != wanted.dtype()) return fmt::format("type {}, not {}", dtype_name(given.dtype()), dtype_name(wanted.dtype()));
  if (given.dims() != wanted.dims()) return fmt::format("shape {}, not {}", to_string(given.dims()), to_string(wanted.dims()));
  const Tensor found = widened(given);
  const Tensor expected = widened(wanted);
  switch (found.dtype()) {
    case DType::kF32: return element_difference<float>(found, expected);
    case DType::kF64: return element_difference<double>(found, expected);
    case DType::kC64: return complex_difference(found, expected);
    case DType::kString: return element_difference<std::string>(found, expected);
    default: break;
  }
  return std::ranges::equal(found.bytes(), expected.bytes()) ? "" : "the elements differ";
}

std::string run_data_set(const Graph& graph, const fs::path& folder) {
  Feeds feeds;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const fs::path file = folder / fmt::format("input_{}.pb", i);
    if (fs::exists(file)) feeds[std::string(graph.name_of(graph.inputs[i]))] = read_tensor(file);
  }
  const std::vector<Tensor> outputs = Evaluator(graph).run(feeds);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string found = difference(outputs[i], read_tensor(folder / fmt::format("output_{}.pb", i)));
    if (!found.empty()) return fmt::format("output {}: {}", i, found);
  }
  return {};
}

bool only_tensors(const Graph& graph, const std::vector<ValueId>& ids) {
  return std::ranges::all_of(ids, [&](ValueId id) {
    const std::optional<ValueType>& type = graph.value(id).type;
    return !type || type->kind == ValueType::Kind::kTensor;
  });
}

// Empty if the test passes, otherwise the reason why not.
std::string run_node_test(const fs::path& folder) {
  try {
    const Model model = read_model(folder / "model.onnx");
    if (!only_tensors(*model.graph, model.graph->inputs) || !only_tensors(*model.graph, model.graph->outputs))
      return "sequences and optionals are not evaluated";
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      const std::string found = run_data_set(*model.graph, entry.path());
      if (!found.empty()) return found;
    }
    return {};
  } catch (const Error& e) { return e.what(); }
}

// Pattern and reason of the tests that are known not to pass.
std::map<std::string, std::string> not_passed() {
  std::ifstream file(testing_support::source_root() / "tests" / "onnx" / "node_tests_not_passed.txt");
  std::map<std::string, std::string> result;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    std::string reason;
    words >> name;
    std::getline(words >> std::ws, reason);
    EXPECT_FALSE(reason.empty()) << name << " is listed without a reason";
    EXPECT_TRUE(result.emplace(name, reason).second) << name << " is listed twice";
  }
  return result;
}

// A pattern is a name; or a prefix and **; or a prefix and *, without the tests of the function that an operator is defined by.
bool matches(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return name == pattern;
  const bool includes_expanded = pattern.ends_with("**");
  return name.starts_with(pattern.substr(0, star)) && (includes_expanded || name.find("_expanded") == std::string::npos);
}

TEST(NodeTests, AllPassExceptThoseListed) {
  KVIK_NEEDS_SHARED();
  const fs::path root = unpacked_node_tests();
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) names.insert(entry.path().filename().string());
  const std::map<std::string, std::string> listed = not_passed();
  size_t n_passed = 0;
  for (const std::string& name : names) {
    const std::string problem = run_node_test(root / name);
    n_passed += problem.empty();
    if (std::ranges::any_of(listed, [&](const auto& entry) { return matches(entry.first, name); })) {
      EXPECT_FALSE(problem.empty()) << name << " passes; remove it from the list";
    } else {
      EXPECT_EQ(problem, "") << name;
    }
  }
  for (const auto& [pattern, reason] : listed) {
    const bool found = std::ranges::any_of(names, [&](const std::string& name) { return matches(pattern, name); });
    EXPECT_TRUE(found) << pattern << " is listed, but there is no such test";
  }
  RecordProperty("passed", static_cast<int>(n_passed));
  fmt::print("{} of {} node tests pass\n", n_passed, names.size());
  EXPECT_EQ(names.size(), 1765u);
  EXPECT_GE(n_passed, 1540u);
}

}  // namespace
}  // namespace kvik::onnx
