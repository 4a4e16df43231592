#pragma once

#include <string>
#include <vector>

#include "constrain/support.h"

namespace kvik::constrain {

struct Case {
  const char* schema;
  std::vector<const char*> good, bad;
};

// What is accepted or refused wrongly.
inline std::vector<std::string> mistakes_in(const std::vector<Case>& cases) {
  std::vector<std::string> mistakes;
  for (const Case& one : cases) {
    TextReader reader = TextReader::of_schema(one.schema);
    for (const char* text : one.good) {
      if (!reader.accepts(text)) mistakes.push_back(std::string(one.schema) + " refuses " + text);
    }
    for (const char* text : one.bad) {
      if (reader.accepts(text)) mistakes.push_back(std::string(one.schema) + " accepts " + text);
    }
  }
  return mistakes;
}

inline std::string schema_error(const std::string& schema) {
  return error_in([&] { TextReader::of_schema(schema); });
}

}  // namespace kvik::constrain
