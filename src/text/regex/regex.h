#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace kvik::text {

// Buffers for matching. One per thread; any number of patterns may use it, one after the other.
class RegexScratch {
 public:
  RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;
  ~RegexScratch();

 private:
  friend class Matches;
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
};

// A compiled pattern. Immutable: any thread may match.
class Regex {
 public:
  // `pattern` is in Oniguruma's syntax. Throws Error if it does not compile.
  explicit Regex(std::string_view pattern);
  // Matches exactly this text.
  static Regex literal(std::string_view text);

  const std::string& pattern() const { return pattern_; }

 private:
  friend class Matches;
  struct Raw {};
  Regex(Raw, std::string pattern, std::string translated);

  std::string pattern_;
  std::shared_ptr<pcre2_real_code_8> code_;
  bool jit_ = false;
};

// The matches of a pattern in a text, from left to right, without overlap; no empty match directly after another.
class Matches {
 public:
  // All three must outlive the object. `text` is valid UTF-8.
  Matches(const Regex& regex, RegexScratch& scratch, std::string_view text) : regex_(regex), scratch_(scratch), text_(text) {}
  // False after the last one. Throws Error(kBadModel) if matching backtracks too much.
  bool next(size_t& begin, size_t& end);

 private:
  bool search(size_t& begin, size_t& end);

  const Regex& regex_;
  RegexScratch& scratch_;
  std::string_view text_;
  size_t at_ = 0;
  size_t last_end_ = static_cast<size_t>(-1);
};

}  // namespace kvik::text
