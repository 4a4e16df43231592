#pragma once

#include <string>

#include "text/template/filters.h"
#include "text/template/runtime.h"

namespace kvik::text::jinja {

// One table a file; null when there is no filter of that name in it.
FilterBody find_text_filter(std::string_view name);
FilterBody find_number_filter(std::string_view name);
FilterBody find_sequence_filter(std::string_view name);
FilterBody find_selection_filter(std::string_view name);

template <size_t n>
FilterBody find_in_table(const Named<FilterBody> (&table)[n], std::string_view name) {
  for (const auto& [known, body] : table)
    if (known == name) return body;
  return nullptr;
}

// "a.b.0" as filters take it: looked up part by part, with numbers as numbers.
class AttributePath {
 public:
  // Nothing, or none: the item itself.
  explicit AttributePath(const Value* attribute);
  // `otherwise` stands for what is undefined on the way, unless it is null or none.
  Value of(Runtime& runtime, Value item, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> parts_;
};

// Text in lower case, anything else as it is: what sorts and compares without regard to case.
Value without_case(Runtime& runtime, const Value& value);

}  // namespace kvik::text::jinja
