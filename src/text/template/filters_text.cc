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

// Text as it is, markup included; anything else printed.
Value soft_text(Runtime& runtime, const Value& value) { return value.is_text() ? value : runtime.text(printed(runtime, value)); }

// The method of str with that name, on whatever the value prints as.
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

Value center(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("center", args, {"width"});
  Args width;
  width.list.push_back(Value::integer(given.integer(0, 80)));
  return by_method(runtime, "center", value, width);
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

Value forceescape(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("forceescape", args, {});
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

Value truncate(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("truncate", args, {"length", "killwords", "end", "leeway"});
  const std::string_view end = given.text(2, "...");
  const int64_t length = given.integer(0, 255), leeway = given.integer(3, 5);
  const auto end_points = static_cast<int64_t>(count_points(end));
  if (length < end_points) fail("truncate: a length of at least {} was expected, not {}", end_points, length);
  if (leeway < 0) fail("truncate: a leeway of at least 0 was expected, not {}", leeway);
  if (jinja::length(runtime, value) - leeway <= length) return value;
  const std::string_view text = to_text(value, "truncate");
  std::string_view kept = text.substr(0, byte_of_point(text, static_cast<size_t>(length - end_points)));
  if (!given.truth(runtime, 1, false)) kept = split_at(kept, " ", 1, true).front();
  return runtime.text(std::string(kept) + std::string(end));
}

Value wordcount(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("wordcount", args, {});
  const std::string text = printed(runtime, value);
  runtime.work(8 * text.size());
  int64_t n = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_point(text, at);
    const bool is_word = point == '_' || is_alnum(point);
    if (is_word && !in_word) ++n;
    in_word = is_word;
  }
  return Value::integer(n);
}

std::string url_quoted(std::string_view text, bool in_query) {
  std::string result;
  for (char c : text) {
    const bool is_safe = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !in_query);
    if (is_safe)
      result += c;
    else if (c == ' ' && in_query)
      result += '+';
    else
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

Value urlencode(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("urlencode", args, {});
  if (value.is_text() || try_iterate(runtime, value) == nullptr) return runtime.text(url_quoted(printed(runtime, value), false));
  const Value pairs = value.is(Kind::kDict) ? find_method(value, "items")(runtime, value, {}) : value;
  std::string result;
  for (const Value& item : collect(runtime, pairs)) {
    const std::vector<Value> pair = collect(runtime, item);
    if (pair.size() != 2) fail("urlencode: pairs were expected");
    if (!result.empty()) result += '&';
    result += url_quoted(printed(runtime, pair[0]), true) + "=" + url_quoted(printed(runtime, pair[1]), true);
    runtime.check_room(result.size());
  }
  return runtime.text(std::move(result));
}

void set_separators(JsonStyle& style, const Value* separators, Runtime& runtime) {
  style.item_separator = style.indent ? "," : ", ";
  style.key_separator = ": ";
  if (separators == nullptr || separators->is_none()) return;
  const std::vector<Value> pair = collect(runtime, *separators);
  if (pair.size() != 2) fail("tojson: two separators were expected");
  style.item_separator = to_text(pair[0], "tojson");
  style.key_separator = to_text(pair[1], "tojson");
}

// As the reference's chat environment has it: nothing escaped for HTML, non-ASCII kept, keys in their order.
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
    {"trim", trim},     {"tojson", tojson},           {"upper", upper},         {"lower", lower},   {"capitalize", capitalize},
    {"title", title},   {"replace", replace},         {"string", string},       {"safe", safe},     {"escape", escape},
    {"e", escape},      {"forceescape", forceescape}, {"format", format},       {"indent", indent}, {"truncate", truncate},
    {"center", center}, {"wordcount", wordcount},     {"urlencode", urlencode},
};

}  // namespace

FilterBody find_text_filter(std::string_view name) { return find_in_table(kTextFilters, name); }

}  // namespace kvik::text::jinja
