#include "text/load/json_file.h"

#include "base/mapped_file.h"

namespace kvik::text {

JsonFile::JsonFile(const std::filesystem::path& path) : JsonFile(MappedFile::open(path)->text(), path.string()) {}

namespace {

// Some configs have an integer above 64 bits for "no limit", which the parser refuses: makes it a float.
std::string with_large_integers_as_floats(std::string_view text) {
  constexpr size_t kMaxDigits = 18;
  std::string out;
  bool in_text = false;
  for (size_t i = 0; i < text.size();) {
    const auto is_digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (in_text || !is_digit(i)) {
      if (in_text && text[i] == '\\' && i + 1 < text.size())
        out += text[i++];
      else if (text[i] == '"')
        in_text = !in_text;
      out += text[i++];
      continue;
    }
    const bool fraction = i > 0 && text[i - 1] == '.';
    size_t end = i;
    while (is_digit(end)) ++end;
    out.append(text.substr(i, end - i));
    const char next = end < text.size() ? text[end] : '\0';
    if (end - i > kMaxDigits && !fraction && next != '.' && next != 'e' && next != 'E') out += "e0";
    i = end;
  }
  return out;
}

}  // namespace

JsonFile::JsonFile(std::string_view text, std::string_view origin) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  json::Element element;
  simdjson::error_code error = parser_.parse(text.data(), text.size(), true).get(element);
  if (error == simdjson::NUMBER_ERROR) error = parser_.parse(with_large_integers_as_floats(text)).get(element);
  if (error != simdjson::SUCCESS) {
    throw Error(Code::kBadModel, fmt::format("{}: not valid JSON ({}); the file may be truncated", origin, simdjson::error_message(error)));
  }
  if (element.get_object().get(root_) != simdjson::SUCCESS) throw Error(Code::kBadModel, fmt::format("{}: not a JSON object", origin));
}

}  // namespace kvik::text
