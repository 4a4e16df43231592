#include "text/regex/regex_syntax.h"

#include <fmt/format.h>
#include <vector>

#include "base/utf8.h"
#include "kvik/error.h"
#include "text/regex/regex_class.h"

namespace kvik::text {
namespace {

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    groups_.push_back({});
    while (at_ < pattern_.size()) read_one();
    for (size_t i = 0; i < groups_.back().n_open_options; ++i) out_ += ')';
    return std::move(out_);
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  struct Group {
    size_t begin = kNone;       // in out_
    size_t n_open_options = 0;  // (?i) applies to the end of its group; written as (?i:…)
  };

  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }

  void begin_atom() {
    atom_ = out_.size();
    quantified_ = false;
  }

  void read_one() {
    switch (peek()) {
      case '\\': read_escape(); return;
      case '[':
        begin_atom();
        out_ += translate_bracket(pattern_, at_);
        return;
      case '(': read_open(); return;
      case ')': read_close(); return;
      case '|':
        out_ += '|';
        ++at_;
        atom_ = kNone;
        return;
      case '*':
      case '+':
      case '?': read_quantifier(); return;
      case '{':
        if (read_interval()) return;
        break;
      default: break;
    }
    const size_t size = utf8::size_of(peek());
    begin_atom();
    if (peek() == '{') out_ += '\\';
    out_.append(pattern_.substr(at_, size));
    at_ += size;
  }

  void wrap_atom() {
    out_.insert(atom_, "(?:");
    out_ += ')';
    quantified_ = false;
  }

  void read_quantifier() {
    if (atom_ != kNone && quantified_) wrap_atom();
    out_ += pattern_[at_++];
    if (peek() == '?' || peek() == '+') out_ += pattern_[at_++];
    quantified_ = true;
  }

  // {n}, {n,}, {,m}, {n,m}. After an interval, + is a second quantifier, not possessive; {n}? is optional, not lazy.
  bool read_interval() {
    const size_t close = pattern_.find('}', at_);
    if (atom_ == kNone || close == std::string_view::npos) return false;
    const std::string_view inside = pattern_.substr(at_ + 1, close - at_ - 1);
    const size_t comma = inside.find(',');
    if (inside.find_first_not_of("0123456789,") != std::string_view::npos || inside.empty() || inside == ",") return false;
    if (comma != std::string_view::npos && inside.find(',', comma + 1) != std::string_view::npos) return false;
    if (quantified_) wrap_atom();
    out_ += comma == 0 ? fmt::format("{{0{}}}", inside) : fmt::format("{{{}}}", inside);
    at_ = close + 1;
    quantified_ = true;
    if (peek() == '+' || (peek() == '?' && comma == std::string_view::npos)) {
      wrap_atom();
      out_ += pattern_[at_++];
      quantified_ = true;
    } else if (peek() == '?') {
      out_ += pattern_[at_++];
    }
    return true;
  }

  void read_open() {
    if (pattern_.substr(at_, 3) == "(?#") {
      const size_t close = pattern_.find(')', at_);
      at_ = close == std::string_view::npos ? pattern_.size() : close + 1;
      return;
    }
    if (peek(1) == '?' && read_options()) return;
    if (pattern_.substr(at_, 3) == "(?~") {
      throw Error(Code::kUnsupported, "a pattern uses the absent operator '(?~…)', which is not supported");
    }
    groups_.push_back({out_.size(), 0});
    size_t size = 1;
    if (peek(1) == '?') size = peek(2) == '<' && (peek(3) == '=' || peek(3) == '!') ? 4 : 3;
    if (peek(1) == '?' && (peek(2) == '<' || peek(2) == '\'') && size == 3) {
      const size_t close = pattern_.find(peek(2) == '<' ? '>' : '\'', at_ + 3);
      if (close != std::string_view::npos) size = close + 1 - at_;
    }
    out_.append(pattern_.substr(at_, size));
    at_ += size;
    atom_ = kNone;
  }

  // (?imx-imx) and (?imx-imx:…); Oniguruma's m is PCRE2's s.
  bool read_options() {
    size_t end = at_ + 2;
    while (end < pattern_.size() && std::string_view("imx-").find(pattern_[end]) != std::string_view::npos) ++end;
    if (end >= pattern_.size() || (pattern_[end] != ')' && pattern_[end] != ':') || end == at_ + 2) return false;
    const size_t begin = out_.size();
    out_ += "(?";
    for (size_t i = at_ + 2; i < end; ++i) out_ += pattern_[i] == 'm' ? 's' : pattern_[i];
    out_ += ':';
    if (pattern_[end] == ')') {
      ++groups_.back().n_open_options;
    } else {
      groups_.push_back({begin, 0});
    }
    at_ = end + 1;
    atom_ = kNone;
    return true;
  }

  void read_close() {
    ++at_;
    if (groups_.size() == 1) {
      out_ += ')';  // PCRE2 reports that it is unmatched
      return;
    }
    out_.append(groups_.back().n_open_options, ')');
    out_ += ')';
    atom_ = groups_.back().begin;
    quantified_ = false;
    groups_.pop_back();
  }

  void read_escape() {
    ++at_;
    begin_atom();
    const char letter = peek();
    CharacterSet set;
    std::string name;
    bool negated;
    char32_t c;
    if (add_named_class(set, letter)) {
      out_ += set.pattern(false);
      ++at_;
    } else if ((letter == 'p' || letter == 'P') && read_property_name(pattern_, at_, name, negated)) {
      add_property(set, name, negated);
      const bool bare = set.others.empty() && set.items.size() > 2 && set.items.find('\\', 1) == std::string::npos;
      out_ += bare ? set.items : set.pattern(false);
    } else if (read_escaped_character(pattern_, at_, c)) {
      out_ += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(c));
    } else {
      read_other_escape(letter);
    }
  }

  void read_other_escape(char letter) {
    if (letter == 'b' || letter == 'B') {
      CharacterSet word;
      add_named_class(word, 'w');
      const std::string w = word.pattern(false);
      out_ += letter == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w) : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w);
      ++at_;
      return;
    }
    if (letter == 'N' || letter == 'O') {
      out_ += letter == 'N' ? "[^\\n]" : "(?s:.)";
      ++at_;
      return;
    }
    if (letter == 'y' || letter == 'Y') {
      throw Error(Code::kUnsupported, fmt::format("a pattern uses '\\{}', a boundary of text segments, which is not supported", letter));
    }
    if (letter == 'k' || letter == 'g') {
      const size_t close = pattern_.find('>', at_);
      const size_t size = peek(1) == '<' && close != std::string_view::npos ? close + 1 - at_ : 1;
      out_ += '\\';
      out_.append(pattern_.substr(at_, size));
      at_ += size;
      return;
    }
    const bool digit = letter >= '1' && letter <= '9';
    const bool keeps = digit || std::string_view("AzZGKRX").find(letter) != std::string_view::npos;
    const bool word = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (keeps || !word) out_ += '\\';  // an escaped letter without a meaning is itself
    const size_t size = letter == '\0' ? 0 : utf8::size_of(letter);
    if (size > 1) out_.pop_back();
    out_.append(pattern_.substr(at_, size));
    at_ += size;
    while (digit && peek() >= '0' && peek() <= '9') out_ += pattern_[at_++];
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = kNone;  // start in out_ of the last atom, which a quantifier would repeat
  bool quantified_ = false;
  std::vector<Group> groups_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace kvik::text
