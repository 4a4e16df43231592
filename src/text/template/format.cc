#include "text/template/format.h"

#include <cmath>

#include "text/template/print.h"
#include "text/template/subscript.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

// Formatted text is in an ordinary string, so its size is checked here.
void append(Runtime& runtime, std::string& out, std::string_view part) {
  runtime.check_room(out.size() + part.size());
  out += part;
}

// str(), repr() or ascii()
std::string converted(Runtime& runtime, const Value& value, char conversion) {
  if (conversion == 's') return printed(runtime, value);
  std::string text = represented(runtime, value);
  if (conversion == 'r') return text;
  std::string ascii;
  for (size_t at = 0; at < text.size();) {
    const auto point = static_cast<uint32_t>(next_point(text, at));
    if (point < 0x80)
      ascii += static_cast<char>(point);
    else if (point < 0x100)
      ascii += fmt::format("\\x{:02x}", point);
    else
      ascii += point < 0x10000 ? fmt::format("\\u{:04x}", point) : fmt::format("\\U{:08x}", point);
  }
  return ascii;
}

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& form, const Value& values)
      : runtime_(runtime), form_(form.as_text()), escapes_(form.text_cell().is_markup), values_(values) {}

  std::string run() {
    std::string out;
    while (at_ < form_.size()) {
      const size_t mark = std::min(form_.find('%', at_), form_.size());
      append(runtime_, out, form_.substr(at_, mark - at_));
      at_ = mark + 1;
      if (mark == form_.size()) break;
      if (at_ >= form_.size()) fail("incomplete format");
      runtime_.step();
      append(runtime_, out, field());
    }
    const bool is_tuple = values_.is(Kind::kTuple);
    if (is_tuple ? used_ < values_.as_items().size() : used_ == 0 && !takes_any())
      fail("not all arguments converted during string formatting");
    return out;
  }

 private:
  // A mapping or sequence may stay unused.
  bool takes_any() const { return used_names_ || values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is_undefined(); }

  Value take() {
    if (named_) return *named_;
    if (values_.is(Kind::kTuple)) {
      if (used_ >= values_.as_items().size()) fail("not enough arguments for format string");
      return values_.as_items()[used_++];
    }
    if (used_++ > 0) fail("not enough arguments for format string");
    return values_;
  }

  int64_t number() {
    if (at_ < form_.size() && form_[at_] == '*') {
      ++at_;
      return to_index(take(), "* wants int");
    }
    int64_t value = 0;
    for (; at_ < form_.size() && form_[at_] >= '0' && form_[at_] <= '9'; ++at_) {
      value = value * 10 + (form_[at_] - '0');
      if (value > INT32_MAX) fail("width too big");
    }
    return value;
  }

  void name() {
    size_t end = at_ + 1;
    for (int open = 1; open > 0; ++end) {
      if (end >= form_.size()) fail("incomplete format key");
      open += form_[end] == '(' ? 1 : form_[end] == ')' ? -1 : 0;
    }
    if (!values_.is(Kind::kDict)) fail("format requires a mapping");
    const std::string_view key = form_.substr(at_ + 1, end - at_ - 2);
    const Value* value = values_.as_dict().find(key);
    if (value == nullptr) fail("the mapping to format has no key '{}'", key);
    named_ = *value;
    used_names_ = true;
    at_ = end;
  }

  std::string field() {
    named_.reset();
    if (form_[at_] == '(') name();
    FormatSpec spec;
    const size_t begin = at_;
    bool is_left = false, has_zeros = false;
    for (; at_ < form_.size() && std::string_view("-+ #0").find(form_[at_]) != std::string_view::npos; ++at_) {
      is_left |= form_[at_] == '-';
      has_zeros |= form_[at_] == '0';
      spec.alternate |= form_[at_] == '#';
      if (form_[at_] == '+' || (form_[at_] == ' ' && spec.sign != '+')) spec.sign = form_[at_];
    }
    spec.width = number();
    if (spec.width < 0) {
      is_left = true;
      spec.width = -spec.width;
    }
    if (at_ < form_.size() && form_[at_] == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(number(), 0);
    }
    while (at_ < form_.size() && std::string_view("hlL").find(form_[at_]) != std::string_view::npos) ++at_;
    if (at_ >= form_.size()) fail("incomplete format");
    spec.type = form_[at_++];
    if (spec.type == '%' && at_ > begin + 1) take();
    spec.align = is_left ? '<' : '>';
    if (has_zeros && !is_left && std::string_view("diouxXeEfFgG").find(spec.type) != std::string_view::npos) {
      spec.align = '=';
      spec.fill = '0';
    }
    return convert(spec);
  }

  std::string convert(FormatSpec spec) {
    switch (spec.type) {
      case '%': return "%";
      case 's':
      case 'r':
      case 'a': {
        const Value value = take();
        std::string text = converted(runtime_, value, spec.type);
        if (escapes_ && !(value.is_text() && value.text_cell().is_markup)) text = escape_html(text);
        if (spec.precision >= 0) text.resize(byte_of_point(text, static_cast<size_t>(spec.precision)));
        return aligned(runtime_, std::move(text), spec, '>');
      }
      case 'c': return character(spec);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return whole(spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        const Value value = take();
        if (value.is_undefined()) fail("{}", value.why_undefined());
        if (!value.is_number()) fail("must be real number, not {}", type_name(value));
        return format_real(runtime_, value.to_double(), spec);
      }
      default: fail("unsupported format character '{}'", spec.type);
    }
  }

  std::string character(FormatSpec spec) {
    const Value value = take();
    spec.alternate = false;
    if (!value.is_text()) return format_whole(runtime_, BigInt(to_index(value, "%c requires int or char")), spec);
    if (value.text_cell().n_points != 1) fail("%c requires int or char");
    return aligned(runtime_, value.as_text(), spec, '>');
  }

  std::string whole(FormatSpec spec) {
    const Value value = take();
    if (value.is_undefined()) fail("{}", value.why_undefined());
    const bool takes_real = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (!value.is_whole() && !(takes_real && value.is(Kind::kFloat)))
      fail("%{} format: a {} is required, not {}", spec.type, takes_real ? "real number" : "integer", type_name(value));
    if (value.is(Kind::kFloat) && !std::isfinite(value.as_float())) fail("cannot convert float to integer");
    const BigInt number = value.is(Kind::kFloat) ? BigInt::from_double(value.as_float()) : value.as_big();
    const int64_t n_digits = std::exchange(spec.precision, -1);
    if (n_digits > INT16_MAX) fail("precision too large");
    if (takes_real) spec.type = 'd';
    if (n_digits < 0) return format_whole(runtime_, number, spec);
    FormatSpec inner = spec;  // the precision is the minimum number of digits
    inner.width = n_digits + (number.is_negative() || spec.sign != '-' ? 1 : 0) + (spec.alternate && spec.type != 'd' ? 2 : 0);
    if (spec.align == '=') inner.width = std::max(inner.width, spec.width);
    inner.align = '=';
    inner.fill = '0';
    return aligned(runtime_, format_whole(runtime_, number, inner), spec, '>');
  }

  Runtime& runtime_;
  std::string_view form_;
  bool escapes_;
  const Value& values_;
  size_t at_ = 0;
  size_t used_ = 0;
  bool used_names_ = false;
  std::optional<Value> named_;
};

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Args& args, bool escapes) : runtime_(runtime), args_(args), escapes_(escapes) {}

  std::string run(std::string_view form, int depth = 0) {
    if (depth > 2) fail("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < form.size();) {
      const char c = form[at];
      if (c != '{' && c != '}') {
        const size_t end = std::min(form.find_first_of("{}", at), form.size());
        append(runtime_, out, form.substr(at, end - at));
        at = end;
        continue;
      }
      if (at + 1 < form.size() && form[at + 1] == c) {
        out += c;
        at += 2;
        continue;
      }
      if (c == '}') fail("Single '}}' encountered in format string");
      size_t end = at + 1;
      for (int open = 1; open > 0; ++end) {
        if (end >= form.size()) fail("expected '}}' before end of string");
        open += form[end] == '{' ? 1 : form[end] == '}' ? -1 : 0;
      }
      runtime_.step();
      append(runtime_, out, field(form.substr(at + 1, end - at - 2), depth));
      at = end;
    }
    return out;
  }

 private:
  std::string field(std::string_view field, int depth) {
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    const Value value = find(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    std::optional<std::string> shown_as;
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2) fail("end of string while looking for conversion specifier");
      if (rest[1] != 's' && rest[1] != 'r' && rest[1] != 'a') fail("Unknown conversion specifier {}", rest[1]);
      shown_as = converted(runtime_, value, rest[1]);
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') fail("expected ':' after conversion specifier");
    const std::string spec = rest.empty() ? "" : run(rest.substr(1), depth + 1);
    const Value shown = shown_as ? Value::text(*shown_as) : value;
    std::string text = format_value(runtime_, shown, parse_format_spec(spec));
    return escapes_ && !(shown.is_text() && shown.text_cell().is_markup) ? escape_html(text) : text;
  }

  // "0", "name", "", then any of ".attribute" and "[key]".
  Value find(std::string_view path) {
    const size_t first_end = std::min(path.find_first_of(".["), path.size());
    Value value = root(path.substr(0, first_end));
    for (size_t at = first_end; at < path.size();) {
      if (path[at] == '.') {
        const size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        if (end == at + 1) fail("Empty attribute in format string");
        value = get_attribute(runtime_, value, path.substr(at + 1, end - at - 1));
        at = end;
        continue;
      }
      const size_t end = path.find(']', at);
      if (path[at] != '[' || end == std::string_view::npos) fail("Only '.' or '[' may follow ']' in format field specifier");
      const std::string_view key = path.substr(at + 1, end - at - 1);
      if (key.empty()) fail("Empty attribute in format string");
      const std::optional<int64_t> index = as_index(key);
      value = get_item(runtime_, value, index ? Value::integer(*index) : Value::text(std::string(key)));
      at = end + 1;
    }
    return value;
  }

  static std::optional<int64_t> as_index(std::string_view digits) {
    if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    return std::stoll(std::string(digits));
  }

  Value root(std::string_view name) {
    std::optional<int64_t> index = as_index(name);
    if (name.empty()) index = next_++;
    if (index) {
      if (*index >= static_cast<int64_t>(args_.list.size())) fail("Replacement index {} out of range for positional args tuple", *index);
      return args_.list[static_cast<size_t>(*index)];
    }
    const Value* value = args_.find(name);
    if (value == nullptr) fail("format(): there is no argument named '{}'", name);
    return *value;
  }

  Runtime& runtime_;
  const Args& args_;
  bool escapes_;
  int64_t next_ = 0;
};

}  // namespace

std::string format_percent(Runtime& runtime, const Value& form, const Value& values) {
  return PercentFormatter(runtime, form, values).run();
}

std::string format_braces(Runtime& runtime, const Value& form, const Args& args) {
  return BraceFormatter(runtime, args, form.text_cell().is_markup).run(form.as_text());
}

}  // namespace kvik::text::jinja
