#include "server/json/multipart.h"

#include <optional>

#include "server/http/message.h"
#include "server/json/api_error.h"

namespace kvik::server {
namespace {

constexpr size_t kMostParts = 64;
constexpr size_t kLongestBoundary = 70;  // RFC 2046

ApiError malformed(const char* sentence) { return {400, "", sentence}; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// The value of `name` in "first; name=value; other=\"quoted\"".
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  for (size_t at = header.find(';'); at != std::string_view::npos;) {
    std::string_view rest = trimmed(header.substr(at + 1));
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = trimmed(rest.substr(0, equals));
    rest = rest.substr(equals + 1);
    const bool is_quoted = rest.starts_with('"');
    const size_t end = is_quoted ? rest.find('"', 1) : rest.find(';');
    if (is_quoted && end == std::string_view::npos) return std::nullopt;
    const std::string_view value = is_quoted ? rest.substr(1, end - 1) : trimmed(rest.substr(0, end));
    if (equal_ignoring_case(key, name)) return std::string(value);
    at = end == std::string_view::npos ? end : rest.find(';', end);
    header = rest;
  }
  return std::nullopt;
}

FormPart parse_part(std::string_view part) {
  const size_t end = part.find("\r\n\r\n");
  if (end == std::string_view::npos) throw malformed("a part of the form has no header");
  FormPart result{.content = part.substr(end + 4)};
  for (std::string_view lines = part.substr(0, end); !lines.empty();) {
    const size_t line_end = std::min(lines.find("\r\n"), lines.size());
    const std::string_view line = lines.substr(0, line_end);
    lines.remove_prefix(std::min(lines.size(), line_end + 2));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !equal_ignoring_case(line.substr(0, colon), "content-disposition")) continue;
    result.name = parameter(line.substr(colon + 1), "name").value_or("");
    result.filename = parameter(line.substr(colon + 1), "filename").value_or("");
  }
  if (result.name.empty()) throw malformed("a part of the form has no name");
  return result;
}

}  // namespace

std::vector<FormPart> parse_multipart(std::string_view content_type, std::string_view body) {
  const std::optional<std::string> boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kLongestBoundary) throw malformed("the form has no boundary");
  const std::string first = "--" + *boundary, next = "\r\n" + first;
  if (!body.starts_with(first)) throw malformed("the form does not begin with its boundary");
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (!body.starts_with("\r\n")) throw malformed("the form has a malformed boundary");
    body.remove_prefix(2);
    size_t end = body.find(next);
    // Only a whole line is a boundary.
    const auto is_line = [&](size_t at) {
      return body.substr(at + next.size()).starts_with("\r\n") || body.substr(at + next.size()).starts_with("--");
    };
    while (end != std::string_view::npos && !is_line(end)) end = body.find(next, end + 1);
    if (end == std::string_view::npos) throw malformed("the form has no end");
    if (parts.size() == kMostParts) throw malformed("the form has too many parts");
    parts.push_back(parse_part(body.substr(0, end)));
    body.remove_prefix(end + next.size());
  }
  return parts;
}

}  // namespace kvik::server
