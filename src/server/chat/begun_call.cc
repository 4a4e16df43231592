#include "server/chat/begun_call.h"

#include <algorithm>
#include <optional>

#include "server/chat/json_extent.h"

namespace kvik::server {
namespace {

// Arguments that are a text of JSON, as far as it goes.
std::string unquoted(std::string text) {
  constexpr size_t kLongestEscape = 12;  // two surrogates
  for (size_t i = 0; i <= kLongestEscape && !text.empty(); ++i, text.pop_back()) {
    const Json value = Json::parse(text + '"', nullptr, false);
    if (value.is_string()) return value.get<std::string>();
  }
  return {};
}

class BegunCalls {
 public:
  BegunCalls(std::string_view text, const ToolFormat& format) : text_(text), format_(format) {}

  std::vector<ToolCall> read() {
    const bool is_list = skip('[');
    do read_call();
    while (is_list && skip(','));
    return std::move(calls_);
  }

 private:
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool skip(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // The value that is next; nothing if it ends too early.
  std::optional<std::string_view> value() {
    skip_spaces();
    const std::string_view rest = text_.substr(at_);
    size_t n = rest.find_first_of(",:]} \t\r\n");
    if (rest.starts_with('{') || rest.starts_with('[')) {
      JsonExtent extent;
      n = extent.extend(rest) ? extent.size() : std::string_view::npos;
    } else if (rest.starts_with('"')) {
      n = 1;
      while (n < rest.size() && rest[n] != '"') n += rest[n] == '\\' ? 2 : 1;
      n = n < rest.size() ? n + 1 : std::string_view::npos;
    }
    if (n == std::string_view::npos) return std::nullopt;
    at_ += n;
    return rest.substr(0, n);
  }

  void read_call() {
    std::optional<std::string> name;
    std::string arguments;
    if (!skip('{')) return;
    do {
      const std::optional<std::string_view> key_text = value();
      const Json key = key_text ? Json::parse(*key_text, nullptr, false) : Json();
      if (!key.is_string() || !skip(':')) break;
      if (!format_.outer_key.empty() && key == format_.outer_key) return read_call();
      skip_spaces();
      const std::string_view rest = text_.substr(at_);
      const std::optional<std::string_view> found = value();
      const Json parsed = found ? Json::parse(*found, nullptr, false) : Json();
      if (key == format_.name_key && parsed.is_string()) name = parsed.get<std::string>();
      if (key == format_.arguments_key) arguments = found ? whole(parsed) : rest.starts_with('"') ? unquoted(std::string(rest)) : rest;
      if (!found) break;
    } while (skip(','));
    if (name) calls_.push_back({*name, arguments});
    skip('}');
  }

  static std::string whole(const Json& arguments) { return arguments.is_string() ? arguments.get<std::string>() : dump(arguments); }

  std::string_view text_;
  const ToolFormat& format_;
  size_t at_ = 0;
  std::vector<ToolCall> calls_;
};

}  // namespace

std::vector<ToolCall> begun_calls(std::string_view text, const ToolFormat& format, const std::vector<std::string>& names) {
  std::vector<ToolCall> calls = BegunCalls(text, format).read();
  std::erase_if(calls, [&](const ToolCall& call) { return std::ranges::find(names, call.name) == names.end(); });
  return calls;
}

}  // namespace kvik::server
