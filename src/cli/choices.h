#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik::cli {

template <class T>
using Choices = std::vector<std::pair<std::string_view, T>>;

inline std::string unknown_choice(std::string_view word, const std::vector<std::string_view>& words) {
  return fmt::format("unknown value '{}'; expected {}", word.substr(0, 60), fmt::join(words, ", "));
}

struct OptionHelp {
  std::string name, help;
};

// An option whose value is one of a few words, in upper or lower case.
template <class Target, class T>
CLI::Option* add_choice(CLI::App& command, const OptionHelp& option, Target& target, const Choices<T>& choices) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  const auto choose = [&target, choices, words, name = option.name](const std::string& given) {
    const std::string lower = CLI::detail::to_lower(given);
    for (const auto& [word, value] : choices) {
      if (word != lower) continue;
      target = value;
      return;
    }
    throw CLI::ValidationError(name, unknown_choice(given, words));
  };
  return command.add_option_function<std::string>(option.name, choose, option.help)->option_text(fmt::format("{}", fmt::join(words, "|")));
}

// The same for an option that stores the word.
inline CLI::Validator one_of(std::vector<std::string_view> words) {
  return CLI::Validator(
      [words = std::move(words)](std::string& given) {
        return std::ranges::find(words, given) != words.end() ? std::string() : unknown_choice(given, words);
      },
      "");
}

}  // namespace kvik::cli
