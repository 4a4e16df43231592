#include "text/template/filters.h"

#include "text/template/filter_tables.h"
#include "text/template/subscript.h"
#include "text/template/text_search.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {

FilterBody find_filter(std::string_view name) {
  if (const FilterBody body = find_text_filter(name)) return body;
  if (const FilterBody body = find_sequence_filter(name)) return body;
  if (const FilterBody body = find_selection_filter(name)) return body;
  if (const FilterBody body = find_group_filter(name)) return body;
  return find_number_filter(name);
}

AttributePath::AttributePath(const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (!attribute->is_text()) {
    parts_.push_back(*attribute);
    return;
  }
  for (std::string_view part : split_at(attribute->as_text(), ".", SIZE_MAX, false)) {
    const bool is_index = !part.empty() && part.size() <= 18 && part.find_first_not_of("0123456789") == std::string_view::npos;
    parts_.push_back(is_index ? Value::integer(std::stoll(std::string(part))) : Value::text(std::string(part)));
  }
}

Value AttributePath::of(Runtime& runtime, Value item, const Value* fallback) const {
  for (const Value& part : parts_) {
    runtime.step();
    item = get_item(runtime, item, part);
    if (item.is_undefined() && fallback != nullptr && !fallback->is_none()) item = *fallback;
  }
  return item;
}

Value without_case(Runtime& runtime, const Value& value) {
  if (!value.is_text()) return value;
  runtime.work(8 * value.as_text().size());
  return runtime.text(to_lower(value.as_text()), value.text_cell().is_markup);
}

}  // namespace kvik::text::jinja
