#pragma once

#include <fmt/core.h>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "kvik/options.h"

// The command lines of the benchmarks: PROGRAM MODEL [--option VALUE]...
namespace kvik::bench {

// Calls set(option, value) for each option; it returns false for one that it does not have. Returns the model. Throws
// std::invalid_argument.
template <class Set>
std::string parse_options(int argc, char** argv, const Set& set) {
  std::string model;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      model = word;
      continue;
    }
    if (++i == argc) throw std::invalid_argument(word + " needs a value");
    if (!set(word, std::string(argv[i]))) throw std::invalid_argument(word + " is not an option");
  }
  if (model.empty()) throw std::invalid_argument("a model is needed");
  return model;
}

template <class Value>
Value named(std::string_view name, std::initializer_list<std::pair<std::string_view, Value>> values) {
  for (const auto& [known, value] : values)
    if (known == name) return value;
  throw std::invalid_argument(fmt::format("'{}' is not known", name));
}

// Options that every benchmark of a model has. False: it is none of them.
inline bool set_load_option(LoadOptions& load, std::string_view option, const std::string& value) {
  if (option == "--weights") {
    using enum Weights;
    load.weights = named<Weights>(value, {{"auto", kAuto}, {"f32", kF32}, {"f16", kF16}, {"q8", kQ8}, {"q4", kQ4}});
  } else if (option == "--kv") {
    using enum KvStorage;
    load.kv = named<KvStorage>(value, {{"auto", kAuto}, {"f32", kF32}, {"f16", kF16}, {"q8", kQ8}});
  } else if (option == "--backend") {
    using enum BackendChoice;
    load.backend = named<BackendChoice>(value, {{"auto", kAuto}, {"native", kNative}, {"ort", kOrt}, {"reference", kReference}});
  } else if (option == "--device") {
    using enum Device;
    load.device = named<Device>(value, {{"cpu", kCpu}, {"cuda", kCuda}, {"auto", kAuto}});
  } else if (option == "--threads") {
    load.threads = std::stoi(value);
  } else {
    return false;
  }
  return true;
}

}  // namespace kvik::bench
