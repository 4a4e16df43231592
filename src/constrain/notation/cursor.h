#pragma once

#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>

#include "constrain/limits.h"
#include "kvik/error.h"

namespace kvik::constrain {

// Reads a pattern or grammar character by character. The text is valid UTF-8.
class Cursor {
 public:
  Cursor(std::string_view text, std::string_view what);

  bool at_end() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool skip(char c);
  bool skip(std::string_view what);
  void advance(size_t n = 1) { at_ += n; }
  char32_t next_character();                    // not at the end
  char32_t hex(size_t n_digits);                // exactly so many
  std::optional<int> number(const char* what);  // decimal digits; an error past kMostRepetitions
  struct Times {
    int least = 0, most = 0;  // kNoLimit: any number
  };
  // "*", "+", "?", "{2}", "{2,}" or "{2,5}"; nothing if none of them is next. `spaced`: there may be spaces inside the braces.
  // `no_number`: the error for braces without a number.
  std::optional<Times> repetition(bool spaced, const char* no_number);
  std::string_view since(size_t begin) const { return text_.substr(begin, at_ - begin); }

  // Throws Error(kBadArgument) with the position.
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void fail_at(size_t place, const std::string& why) const;

  // Limits the depth of groups.
  class Nesting {
   public:
    explicit Nesting(Cursor& cursor) : cursor_(cursor) {
      if (++cursor_.depth_ > kMostNesting) cursor_.fail(fmt::format("groups are nested more than {} deep", kMostNesting));
    }
    ~Nesting() { --cursor_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Cursor& cursor_;
  };

 private:
  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace kvik::constrain
