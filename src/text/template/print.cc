#include "text/template/print.h"

#include <charconv>
#include <cmath>

#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

void repr_text(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t point = next_point(text, at);
    const auto code = static_cast<uint32_t>(point);
    if (point == static_cast<char32_t>(quote) || point == '\\')
      out += {'\\', static_cast<char>(point)};
    else if (point == '\n')
      out += "\\n";
    else if (point == '\r')
      out += "\\r";
    else if (point == '\t')
      out += "\\t";
    else if (is_printable(point))
      out.append(text.substr(start, at - start));
    else if (point < 0x100)
      out += fmt::format("\\x{:02x}", code);
    else if (point < 0x10000)
      out += fmt::format("\\u{:04x}", code);
    else
      out += fmt::format("\\U{:08x}", code);
  }
  out += quote;
}

void repr_items(Runtime& runtime, const Value& value, std::string& out) {
  const bool is_tuple = value.is(Kind::kTuple);
  const std::vector<Value>& items = value.as_items();
  out += is_tuple ? '(' : '[';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    repr_to(runtime, items[i], out);
  }
  if (is_tuple && items.size() == 1) out += ',';
  out += is_tuple ? ')' : ']';
}

void repr_dict(Runtime& runtime, const Dict& dict, std::string& out) {
  out += '{';
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!std::exchange(first, false)) out += ", ";
    repr_to(runtime, entry.key, out);
    out += ": ";
    repr_to(runtime, entry.value, out);
  }
  out += '}';
}

}  // namespace

std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, result.ptr);
  const size_t mark = text.find('e');
  const int exponent = std::stoi(text.substr(mark + 1));
  if (exponent >= -4 && exponent < 16) {
    const auto plain = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
    text.assign(buffer, plain.ptr);
    return text.find('.') == std::string::npos ? text + ".0" : text;
  }
  return text;  // at least two digits of exponent, as in Python
}

void repr_to(Runtime& runtime, const Value& value, std::string& out) {
  runtime.step();
  runtime.check_room(out.size());
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: out += "Undefined"; return;
    case Kind::kNone: out += "None"; return;
    case Kind::kBool: out += value.as_bool() ? "True" : "False"; return;
    case Kind::kInt: out += std::to_string(value.as_int()); return;
    case Kind::kBigInt:
      runtime.work(value.as_big().bits() * 8);
      out += value.as_big().to_string();
      return;
    case Kind::kFloat: out += print_real(value.as_float()); return;
    case Kind::kText:
      runtime.work(value.as_text().size());
      runtime.check_room(out.size() + value.as_text().size());
      if (!value.text_cell().is_markup) return repr_text(value.as_text(), out);
      out += "Markup(";
      repr_text(value.as_text(), out);
      out += ')';
      return;
    case Kind::kList:
    case Kind::kTuple: return repr_items(runtime, value, out);
    case Kind::kDict: return repr_dict(runtime, value.as_dict(), out);
    case Kind::kObject: out += value.as_object().repr(runtime); return;
  }
}

void print_to(Runtime& runtime, const Value& value, std::string& out) {
  if (value.is_undefined()) return;
  if (!value.is_text()) return repr_to(runtime, value, out);
  runtime.work(value.as_text().size());
  runtime.check_room(out.size() + value.as_text().size());
  out += value.as_text();
}

std::string printed(Runtime& runtime, const Value& value) {
  std::string text;
  print_to(runtime, value, text);
  return text;
}

std::string represented(Runtime& runtime, const Value& value) {
  std::string text;
  repr_to(runtime, value, text);
  return text;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace kvik::text::jinja
