#include <algorithm>

#include "text/template/filter_tables.h"
#include "text/template/format.h"
#include "text/template/json.h"
#include "text/template/methods.h"
#include "text/template/print.h"
#include "text/template/subscript.h"
#include "text/template/text_search.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

// Text unchanged, including markup; other values as printed.
Value soft_text(Runtime& runtime, const Value& value) { return value.is_text() ? value : runtime.text(printed(runtime, value)); }

// Calls a method of str on the printed value.
Value by_method(Runtime& runtime, std::string_view method, const Value& value, const Args& args) {
  return find_text_method(method)(runtime, soft_text(runtime, value), args);
}

Value upper(Runtime& runtime, const Value& value, const Args& args) { return by_method(runtime, "upper", value, args); }
Value lower(Runtime& runtime, const Value& value, const Args& args) { return by_method(runtime, "lower", value, args); }
Value capitalize(Runtime& runtime, const Value& value, const Args& args) { return by_method(runtime, "capitalize", value, args); }
Value trim(Runtime& runtime, const Value& value, const Args& args) { return by_method(runtime, "strip", value, args); }

Value title(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("title", args, {});
  const std::string text = printed(runtime, value);
  runtime.work(16 * text.size());
  std::string result;
  bool starts_word = true, in_break = false;
  std::string word;
  const auto flush = [&] {
    result += to_lower(word);
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t point = next_point(text, at);
    const bool breaks =
        is_space(point) || (point < 0x80 && std::string_view("-({[<").find(static_cast<char>(point)) != std::string_view::npos);
    if (starts_word || breaks != in_break) {
      flush();
      result += to_upper(std::string_view(text).substr(start, at - start));
    } else {
      word += text.substr(start, at - start);
    }
    starts_word = false;
    in_break = breaks;
  }
  flush();
  return runtime.text(std::move(result));
}

Value replace(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("replace", args, {"old", "new", "count"}, 2);
  const std::string text = printed(runtime, value);
  const std::string old_part = printed(runtime, given.required(0)), new_part = printed(runtime, given.required(1));
  return runtime.text(replace_all(runtime, text, old_part, new_part, given.integer(2, -1)));
}

Value string(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("string", args, {});
  return soft_text(runtime, value);
}

Value safe(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("safe", args, {});
  return runtime.text(printed(runtime, value), true);
}

Value escape(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("escape", args, {});
  if (value.is_text() && value.text_cell().is_markup) return value;
  return runtime.text(escape_html(printed(runtime, value)), true);
}

Value format(Runtime& runtime, const Value& value, const Args& args) {
  if (!args.list.empty() && !args.named.empty()) fail("can't handle positional and keyword arguments at the same time");
  const Value form = soft_text(runtime, value);
  Value values = runtime.tuple(args.list);
  if (!args.named.empty()) {
    auto dict = std::make_shared<Dict>();
    for (const auto& [name, named] : args.named) dict->set(name, named);
    values = runtime.dict(std::move(dict));
  }
  return runtime.text(format_percent(runtime, form, values), form.text_cell().is_markup);
}

Value indent(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("indent", args, {"width", "first", "blank"});
  const std::string text = to_text(value, "indent") + "\n";
  std::string margin;
  if (given[0] != nullptr && given[0]->is_text()) {
    margin = given[0]->as_text();
  } else {
    const auto width = static_cast<size_t>(std::max<int64_t>(given[0] == nullptr ? 4 : to_index(*given[0], "indent"), 0));
    runtime.check_room(width);
    margin.assign(width, ' ');
  }
  const bool indents_first = given.truth(runtime, 1, false), indents_blank = given.truth(runtime, 2, false);
  std::string result = indents_first ? margin : "";
  bool is_first = true;
  for (std::string_view line : split_lines(text)) {
    runtime.check_room(result.size() + margin.size() + line.size() + 1);
    if (!is_first) result += '\n';
    if (!is_first && (indents_blank || !line.empty())) result += margin;
    result += line;
    is_first = false;
  }
  return runtime.text(std::move(result), value.text_cell().is_markup);
}

void set_separators(JsonStyle& style, const Value* separators, Runtime& runtime) {
  style.item_separator = style.indent ? "," : ", ";
  style.key_separator = ": ";
  if (separators == nullptr || separators->is_none()) return;
  const std::vector<Value> pair = collect(runtime, *separators);
  if (pair.size() != 2) fail("tojson: expected two separators");
  style.item_separator = to_text(pair[0], "tojson");
  style.key_separator = to_text(pair[1], "tojson");
}

// As in the reference's chat environment: no HTML escapes, non-ASCII unchanged, keys in order.
Value tojson(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii_only = given.truth(runtime, 0, false);
  style.sorts_keys = given.truth(runtime, 3, false);
  if (given[1] != nullptr && given[1]->is_text()) {
    style.indent = given[1]->as_text();
  } else if (given[1] != nullptr && !given[1]->is_none()) {
    const auto width = static_cast<size_t>(std::max<int64_t>(to_index(*given[1], "tojson"), 0));
    runtime.check_room(width);
    style.indent = std::string(width, ' ');
  }
  set_separators(style, given[2], runtime);
  return runtime.text(to_json(runtime, value, style));
}

constexpr Named<FilterBody> kTextFilters[] = {
    {"trim", trim},   {"tojson", tojson},   {"upper", upper},   {"lower", lower}, {"capitalize", capitalize},
    {"title", title}, {"replace", replace}, {"string", string}, {"safe", safe},   {"escape", escape},
    {"e", escape},    {"format", format},   {"indent", indent},
};

}  // namespace

FilterBody find_text_filter(std::string_view name) { return find_in_table(kTextFilters, name); }

}  // namespace kvik::text::jinja
