#pragma once

#include <string>

#include "text/template/filters.h"
#include "text/template/runtime.h"

namespace kvik::text::jinja {

// One table per file; null if it has no filter of that name.
FilterBody find_text_filter(std::string_view name);
FilterBody find_number_filter(std::string_view name);
FilterBody find_sequence_filter(std::string_view name);
FilterBody find_selection_filter(std::string_view name);
FilterBody find_group_filter(std::string_view name);

template <size_t n>
FilterBody find_in_table(const Named<FilterBody> (&table)[n], std::string_view name) {
  for (const auto& [known, body] : table)
    if (known == name) return body;
  return nullptr;
}

// The attribute argument of filters, such as "a.b.0": looked up part by part; numbers are indices.
class AttributePath {
 public:
  // Null or none: the item itself.
  explicit AttributePath(const Value* attribute);
  // `fallback` replaces undefined values, unless it is null or none.
  Value of(Runtime& runtime, Value item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

// Text in lower case, other values unchanged: for comparisons that ignore case.
Value without_case(Runtime& runtime, const Value& value);

}  // namespace kvik::text::jinja
