#include "server/chat/tool_reader.h"

#include <algorithm>
#include <iterator>

#include "server/chat/begun_call.h"

namespace kvik::server {
namespace {

constexpr const char* kSpaces = " \t\r\n";

// Bytes at the end of `text` that may be the beginning of `word`.
size_t begun(std::string_view text, std::string_view word) {
  for (size_t n = std::min(text.size(), word.size()); n > 0; --n) {
    if (text.ends_with(word.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

ToolReader::Found ToolReader::push(std::string_view text) {
  held_ += text;
  Found found;
  while (in_call_ ? take_call(found) : take_text(found)) {}
  return found;
}

ToolReader::Found ToolReader::flush(bool is_cut) {
  Found found;
  if (is_cut) take_begun_call(found);
  if (in_call_) {
    give_up(found);
    while (in_call_ ? take_call(found) : take_text(found)) {}
  }
  found.content += (in_call_ ? opening_ : std::string()) + held_;
  if (after_call_ && found.content.find_first_not_of(kSpaces) == std::string::npos) found.content.clear();
  held_.clear();
  return found;
}

// True if there is more to do.
bool ToolReader::take_text(Found& found) {
  if (after_call_) {
    const size_t start = held_.find_first_not_of(kSpaces);
    if (start == std::string::npos) return false;
    if (!format_.suffix.empty() && std::string_view(held_).substr(start).starts_with(format_.suffix)) {
      held_.erase(0, start + format_.suffix.size());
      return !held_.empty();
    }
    const size_t n_rest = held_.size() - start;
    const bool may_be_prefix = n_rest < format_.prefix.size() && begun(held_, format_.prefix) == n_rest;
    if (may_be_prefix || begun(held_, format_.suffix) == n_rest) return false;
  }
  const size_t start = held_.find_first_not_of(kSpaces);
  const size_t prefix = format_.prefix.empty() ? std::string::npos : held_.find(format_.prefix);
  // The prefix may be a special token, which is no text; then the answer is nothing but calls.
  const bool may_begin = !has_begun_ || after_call_;
  if (may_begin && start == std::string::npos) return false;
  // "[" may become a prefix such as "[CALLS]".
  const size_t n_rest = held_.size() - std::min(start, held_.size());
  if (may_begin && n_rest < format_.prefix.size() && begun(held_, format_.prefix) == n_rest) return false;
  if (may_begin && (held_[start] == '{' || held_[start] == '[') && prefix != start) {
    opening_ = held_.substr(0, start);
    held_.erase(0, start);
  } else if (prefix != std::string::npos) {
    found.content += prefix > (after_call_ ? start : 0) ? held_.substr(0, prefix) : "";
    opening_ = format_.prefix;
    held_.erase(0, prefix + format_.prefix.size());
  } else {
    const size_t n_shown = held_.size() - begun(held_, format_.prefix);
    has_begun_ |= n_shown > 0;
    if (n_shown > 0) after_call_ = false;
    found.content += held_.substr(0, n_shown);
    held_.erase(0, n_shown);
    return false;
  }
  in_call_ = true;
  extent_ = {};
  return true;
}

bool ToolReader::take_call(Found& found) {
  const size_t start = held_.find_first_not_of(kSpaces);
  if (start == std::string::npos) return false;
  if (start > 0) {
    opening_ += held_.substr(0, start);
    held_.erase(0, start);
  }
  if (held_.front() != '{' && held_.front() != '[') {
    give_up(found);
    return true;
  }
  if (!extent_.extend(held_)) return false;
  const Json value = Json::parse(std::string_view(held_).substr(0, extent_.size()), nullptr, false);
  std::optional<std::vector<ToolCall>> calls;
  if (!value.is_discarded()) calls = calls_in(value, format_, how_.names);
  if (!calls) {
    give_up(found);
    return true;
  }
  add_calls(found, std::move(*calls));
  held_.erase(0, extent_.size());
  in_call_ = false;
  after_call_ = true;
  return !held_.empty();
}

void ToolReader::take_begun_call(Found& found) {
  std::vector<ToolCall> calls;
  if (in_call_) calls = begun_calls(held_, format_, how_.names);
  if (calls.empty() && how_.is_forced && n_calls_ == 0 && how_.names.size() == 1) calls.push_back({how_.names.front(), ""});
  const bool is_text = calls.empty() && !(how_.is_forced && n_calls_ == 0);  // half a name of a forced call is nothing
  if (is_text) return;
  add_calls(found, std::move(calls));
  held_.clear();
  in_call_ = false;
}

void ToolReader::add_calls(Found& found, std::vector<ToolCall> calls) {
  if (how_.only_one) calls.resize(std::min(calls.size(), size_t{1} - std::min(n_calls_, size_t{1})));
  n_calls_ += calls.size();
  std::ranges::move(calls, std::back_inserter(found.calls));
}

// It is text after all.
void ToolReader::give_up(Found& found) {
  found.content += opening_ + held_.substr(0, extent_.size());
  held_.erase(0, extent_.size());
  in_call_ = false;
  has_begun_ = true;
  after_call_ = false;
}

}  // namespace kvik::server
