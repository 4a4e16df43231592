#include <algorithm>

#include "text/template/format.h"
#include "text/template/methods.h"
#include "text/template/print.h"
#include "text/template/text_search.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

// Methods of markup return markup.
Value like(Runtime& runtime, const Value& self, std::string text) { return runtime.text(std::move(text), self.text_cell().is_markup); }
Value like(Runtime& runtime, const Value& self, std::string_view text) { return like(runtime, self, std::string(text)); }

template <std::string (*kMap)(std::string_view)>
Value mapped(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters none("this method of str", args, {});
  runtime.work(8 * self.as_text().size());
  return like(runtime, self, kMap(self.as_text()));
}

template <bool kLeft, bool kRight>
Value strip(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("strip", args, {"chars"});
  const std::string_view chars = given.text(0, "");
  const std::string_view* set = given[0] == nullptr || given[0]->is_none() ? nullptr : &chars;
  std::string_view text = self.as_text();
  runtime.work(text.size() * (1 + chars.size() / 16));
  if (kLeft) text = strip_left(text, set);
  if (kRight) text = strip_right(text, set);
  return like(runtime, self, text);
}

Value pieces(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts, Kind kind = Kind::kList) {
  runtime.check_room(parts.size() * 2 * sizeof(Value));
  std::vector<Value> values;
  values.reserve(parts.size());
  for (std::string_view part : parts) values.push_back(like(runtime, self, part));
  return kind == Kind::kList ? runtime.list(std::move(values)) : runtime.tuple(std::move(values));
}

template <bool kFromRight>
Value split(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("split", args, {"sep", "maxsplit"});
  const bool by_space = given[0] == nullptr || given[0]->is_none();
  const std::string_view separator = given.text(0, "");
  const int64_t most = given.integer(1, -1);
  if (!by_space && separator.empty()) fail("empty separator");
  runtime.work(self.as_text().size());
  const size_t limit = most < 0 ? SIZE_MAX : static_cast<size_t>(most);
  return pieces(runtime, self,
                by_space ? split_at_space(self.as_text(), limit, kFromRight) : split_at(self.as_text(), separator, limit, kFromRight));
}

Value splitlines(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("splitlines", args, {"keepends"});
  runtime.work(self.as_text().size());
  return pieces(runtime, self, split_lines(self.as_text(), given.truth(runtime, 0, false)));
}

template <bool kAtEnd>
Value has_affix(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given(kAtEnd ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  const std::optional<std::string_view> range = search_range(self, given, 1);
  const auto matches = [&](const Value& affix) {
    const std::string& text = to_text(affix, kAtEnd ? "endswith" : "startswith");
    runtime.work(text.size());
    return range && (kAtEnd ? range->ends_with(text) : range->starts_with(text));
  };
  if (!given.required(0).is(Kind::kTuple)) return Value::boolean(matches(given.required(0)));
  const std::vector<Value>& affixes = given.required(0).as_items();
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

template <bool kLast, bool kMustExist>
Value find(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("find", args, {"sub", "start", "end"}, 1);
  const std::string& wanted = to_text(given.required(0), "find");
  runtime.work(self.as_text().size());
  const std::optional<std::string_view> range = search_range(self, given, 1);
  const size_t at = !range ? std::string_view::npos : kLast ? rfind_text(*range, wanted) : find_text(*range, wanted);
  if (at == std::string_view::npos) {
    if (kMustExist) fail("substring not found");
    return Value::integer(-1);
  }
  const auto byte = static_cast<size_t>(range->data() - self.as_text().data()) + at;
  return Value::integer(static_cast<int64_t>(count_points(std::string_view(self.as_text()).substr(0, byte))));
}

Value count_text(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("count", args, {"sub", "start", "end"}, 1);
  const std::string& wanted = to_text(given.required(0), "count");
  runtime.work(self.as_text().size());
  const std::optional<std::string_view> range = search_range(self, given, 1);
  if (!range) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_points(*range)) + 1);
  int64_t n = 0;
  for (size_t at = find_text(*range, wanted); at != std::string_view::npos; at = find_text(*range, wanted, at + wanted.size())) ++n;
  return Value::integer(n);
}

Value replace_text(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("replace", args, {"old", "new", "count"}, 2);
  std::string old_part = to_text(given.required(0), "replace"), new_part = to_text(given.required(1), "replace");
  if (self.text_cell().is_markup) {
    if (!given.required(0).text_cell().is_markup) old_part = escape_html(old_part);
    if (!given.required(1).text_cell().is_markup) new_part = escape_html(new_part);
  }
  return like(runtime, self, replace_all(runtime, self.as_text(), old_part, new_part, given.integer(2, -1)));
}

Value join_text(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("join", args, {"iterable"}, 1);
  const std::unique_ptr<Iterator> it = iterate(runtime, given.required(0));
  std::string text;
  bool first = true;
  while (const std::optional<Value> item = it->next()) {
    runtime.step();
    if (!std::exchange(first, false)) text += self.as_text();
    const std::string& part = to_text(*item, "join");
    runtime.check_room(text.size() + part.size() + self.as_text().size());
    text += self.text_cell().is_markup && !item->text_cell().is_markup ? escape_html(part) : part;
  }
  return like(runtime, self, std::move(text));
}

template <bool (*kHolds)(char32_t)>
Value all_are(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters none("this method of str", args, {});
  const std::string_view text = self.as_text();
  runtime.work(8 * text.size());
  for (size_t at = 0; at < text.size();)
    if (!kHolds(next_point(text, at))) return Value::boolean(false);
  return Value::boolean(!text.empty());
}

// islower and isupper: at least one letter of that case, and none of the other.
template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
Value is_case(Runtime& runtime, const Value& self, const Args&) {
  const std::string_view text = self.as_text();
  runtime.work(8 * text.size());
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_point(text, at);
    if (kOther(point) || is_title(point)) return Value::boolean(false);
    found |= kWanted(point);
  }
  return Value::boolean(found);
}

template <bool kFromRight>
Value partition(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("partition", args, {"sep"}, 1);
  const std::string& separator = to_text(given.required(0), "partition");
  if (separator.empty()) fail("empty separator");
  const std::string_view text = self.as_text();
  runtime.work(text.size());
  const size_t at = kFromRight ? rfind_text(text, separator) : find_text(text, separator);
  if (at == std::string_view::npos && kFromRight) return pieces(runtime, self, {"", "", text}, Kind::kTuple);
  if (at == std::string_view::npos) return pieces(runtime, self, {text, "", ""}, Kind::kTuple);
  return pieces(runtime, self, {text.substr(0, at), separator, text.substr(at + separator.size())}, Kind::kTuple);
}

Value removeprefix(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("removeprefix", args, {"prefix"}, 1);
  const std::string& prefix = to_text(given.required(0), "removeprefix");
  return self.as_text().starts_with(prefix) ? like(runtime, self, self.as_text().substr(prefix.size())) : self;
}

Value removesuffix(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("removesuffix", args, {"suffix"}, 1);
  const std::string& suffix = to_text(given.required(0), "removesuffix");
  if (suffix.empty() || !self.as_text().ends_with(suffix)) return self;
  return like(runtime, self, self.as_text().substr(0, self.as_text().size() - suffix.size()));
}

Value format_text(Runtime& runtime, const Value& self, const Args& args) { return like(runtime, self, format_braces(runtime, self, args)); }

constexpr Named<MethodBody> kMethods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"replace", replace_text},
    {"join", join_text},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count_text},
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"title", mapped<to_title>},
    {"capitalize", mapped<capitalized>},
    {"format", format_text},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"isalnum", all_are<is_alnum>},
    {"isalpha", all_are<is_alpha>},
    {"isdigit", all_are<is_digit>},
    {"islower", is_case<is_lower, is_upper>},
    {"isspace", all_are<is_space>},
    {"isupper", is_case<is_upper, is_lower>},
};

}  // namespace

MethodBody find_text_method(std::string_view name) {
  for (const auto& [known, body] : kMethods)
    if (known == name) return body;
  return nullptr;
}

}  // namespace kvik::text::jinja
