#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <string>

namespace kvik::cli {

// Checks of values whose messages state what was expected. check_numbers() reports words that are not numbers.
inline CLI::Validator at_least(double low) {
  return CLI::Validator(
      [low](std::string& word) {
        double value = 0;
        if (!CLI::detail::lexical_cast(word, value) || value >= low) return std::string();
        return fmt::format("{} is out of range; {} or more was expected", word, low);
      },
      "");
}

inline CLI::Validator greater_than_zero() {
  return CLI::Validator(
      [](std::string& word) {
        double value = 0;
        if (!CLI::detail::lexical_cast(word, value) || value > 0) return std::string();
        return fmt::format("{} is out of range; a number above 0 was expected", word);
      },
      "");
}

inline CLI::Validator between(int low, int high) {
  return CLI::Validator(
      [low, high](std::string& word) {
        double value = 0;
        if (!CLI::detail::lexical_cast(word, value) || (value >= low && value <= high)) return std::string();
        return fmt::format("{} is out of range; {} to {} was expected", word, low, high);
      },
      "");
}

// A number of bytes, with a unit if wanted: 1000000, 500MB, 2GiB.
inline CLI::Validator byte_count() {
  return CLI::Validator(
      [](std::string& word) {
        const std::string given = word;
        const bool starts_as_number = !word.empty() && word.front() >= '0' && word.front() <= '9';
        try {
          if (starts_as_number && CLI::AsSizeValue(false)(word).empty()) return std::string();
        } catch (const CLI::ValidationError&) {  // its message lists 20 units; ours is below
        }
        return fmt::format("'{}' is not a size; a number of bytes was expected, such as 500MB or 2GB", given.substr(0, 60));
      },
      "");
}

}  // namespace kvik::cli
