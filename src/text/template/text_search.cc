#include "text/template/text_search.h"

#include <algorithm>
#include <cstring>

#include "text/template/methods.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

bool ends_line(char32_t point) {
  return (point >= 0x0A && point <= 0x0D) || (point >= 0x1C && point <= 0x1E) || point == 0x85 || point == 0x2028 || point == 0x2029;
}

// From the left; the last part is the rest after `most` splits, without leading white space.
std::vector<std::string_view> split_at_space_from_left(std::string_view text, size_t most) {
  std::vector<std::string_view> parts;
  text = strip_left(text);
  while (!text.empty()) {
    if (parts.size() == most) {
      parts.push_back(text);
      break;
    }
    size_t end = 0, at = 0;
    for (; at < text.size(); end = at)
      if (is_space(next_point(text, at))) break;
    parts.push_back(text.substr(0, end));
    text = strip_left(text.substr(end));
  }
  return parts;
}

std::vector<std::string_view> split_at_space_from_right(std::string_view text, size_t most) {
  std::vector<std::string_view> parts;
  text = strip_right(text);
  while (!text.empty()) {
    if (parts.size() == most) {
      parts.push_back(text);
      break;
    }
    size_t start = text.size(), at = start;
    for (; at > 0; start = at)
      if (is_space(previous_point(text, at))) break;
    parts.push_back(text.substr(start));
    text = strip_right(text.substr(0, start));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

size_t find_text(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_text(std::string_view text, std::string_view wanted) {
  constexpr size_t kShort = 32;  // a naive search is as fast as reversing
  if (wanted.size() <= kShort) return text.rfind(wanted);
  const std::string mirrored(text.rbegin(), text.rend()), mirrored_wanted(wanted.rbegin(), wanted.rend());
  const size_t found = find_text(mirrored, mirrored_wanted);
  return found == std::string_view::npos ? found : text.size() - found - wanted.size();
}

std::vector<std::string_view> split_at_space(std::string_view text, size_t most, bool from_right) {
  return from_right ? split_at_space_from_right(text, most) : split_at_space_from_left(text, most);
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, size_t most, bool from_right) {
  // Searches the reversed text from the left.
  const std::string mirrored(from_right ? std::string(text.rbegin(), text.rend()) : std::string());
  const std::string mirrored_separator(separator.rbegin(), separator.rend());
  const std::string_view searched = from_right ? std::string_view(mirrored) : text;
  std::vector<std::string_view> parts;
  size_t at = 0;
  const auto add = [&](size_t end) { parts.push_back(from_right ? text.substr(text.size() - end, end - at) : text.substr(at, end - at)); };
  while (parts.size() < most) {
    const size_t found = find_text(searched, from_right ? std::string_view(mirrored_separator) : separator, at);
    if (found == std::string_view::npos) break;
    add(found);
    at = found + separator.size();
  }
  add(text.size());
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::optional<std::string_view> search_range(const Value& text, const Parameters& given, size_t first) {
  const Text& cell = text.text_cell();
  const auto length = static_cast<int64_t>(cell.n_points);
  const auto placed = [&](int64_t at) { return at < 0 ? std::max<int64_t>(at + length, 0) : at; };
  const int64_t start = placed(given.integer(first, 0));
  const int64_t end = std::min(placed(given.integer(first + 1, length)), length);
  if (start > end) return std::nullopt;
  const std::string_view utf8 = cell.utf8;
  if (cell.is_ascii()) return utf8.substr(static_cast<size_t>(start), static_cast<size_t>(end - start));
  const size_t from = byte_of_point(utf8, static_cast<size_t>(start));
  return utf8.substr(from, byte_of_point(utf8.substr(from), static_cast<size_t>(end - start)));
}

std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t point = next_point(text, at);
    if (!ends_line(point)) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keeps_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string replace_all(Runtime& runtime, std::string_view text, std::string_view old_part, std::string_view new_part, int64_t most) {
  std::string result;
  runtime.work(text.size());
  const auto add = [&](std::string_view part) {
    runtime.check_room(result.size() + part.size());
    result += part;
  };
  size_t at = 0;
  for (int64_t n = 0; most < 0 || n < most; ++n) {
    runtime.step();
    if (!old_part.empty()) {
      const size_t found = find_text(text, old_part, at);
      if (found == std::string_view::npos) break;
      add(text.substr(at, found - at));
      add(new_part);
      at = found + old_part.size();
      continue;
    }
    add(new_part);  // before every code point and at the end
    if (at == text.size()) break;
    const size_t start = at;
    next_point(text, at);
    add(text.substr(start, at - start));
  }
  add(text.substr(at));
  return result;
}

}  // namespace kvik::text::jinja
