#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <string>

namespace kvik::cli {

// Checks of numbers whose messages say what was expected. A word that is no number is left to the conversion.
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

}  // namespace kvik::cli
