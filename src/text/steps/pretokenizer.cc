#include "text/steps/pretokenizer.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/utf8.h"
#include "text/steps/split_events.h"
#include "text/unicode/byte_alphabet.h"
#include "text/unicode/unicode.h"

namespace kvik::text {
namespace {

struct Chain {
  const PreTokenizers& steps;
  Scratch& scratch;
  size_t first_counter;
  PieceSink& last;
};

// Passes the pieces of one step to the next.
class Link final : public PieceSink {
 public:
  Link(const Chain& chain, size_t at) : chain_(chain), at_(at) {}
  void take(const Piece& piece) override {
    if (piece.text.empty()) return;
    if (at_ > 0) chain_.scratch.growth.add(chain_.first_counter + at_ - 1, piece.text.size());
    if (at_ == chain_.steps.size()) {
      chain_.last.take(piece);
      return;
    }
    Link next(chain_, at_ + 1);
    chain_.steps[at_]->split(piece, chain_.scratch, chain_.scratch.steps[at_], next);
  }

 private:
  const Chain& chain_;
  size_t at_;
};

class RegexSplit final : public PreTokenizer {
 public:
  RegexSplit(Regex pattern, SplitBehavior behavior, bool invert) : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(const Piece& piece, Scratch& scratch, std::string&, PieceSink& sink) const override {
    SplitEvents events(piece, behavior_, sink);
    Matches matches(pattern_, scratch.regex, piece.text);
    size_t at = 0;
    for (size_t begin, end; matches.next(begin, end);) {
      if (begin < at || end < begin) continue;  // \K can move the start of a match anywhere
      if (at != begin) events.add(at, begin, invert_);
      events.add(begin, end, !invert_);
      at = end;
    }
    if (at != piece.text.size()) events.add(at, piece.text.size(), invert_);
    events.finish();
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits at single characters for which `matches` is true.
template <bool (*matches)(char32_t)>
class CharacterSplit final : public PreTokenizer {
 public:
  explicit CharacterSplit(SplitBehavior behavior) : behavior_(behavior) {}
  void split(const Piece& piece, Scratch&, std::string&, PieceSink& sink) const override {
    split_at_characters(piece, behavior_, sink, matches);
  }

 private:
  SplitBehavior behavior_;
};

bool is_any_punctuation(char32_t c) { return c < 0x80 ? unicode::is_ascii_punctuation(c) : unicode::is_punctuation(c); }

class Delimiter final : public PreTokenizer {
 public:
  explicit Delimiter(char32_t delimiter) : delimiter_(delimiter) {}
  void split(const Piece& piece, Scratch&, std::string&, PieceSink& sink) const override {
    split_at_characters(piece, SplitBehavior::kRemoved, sink, [&](char32_t c) { return c == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void split(const Piece& piece, Scratch&, std::string& buffer, PieceSink& sink) const override {
    buffer.clear();
    size_t n_at_start = 0;
    const bool starts = piece.text.front() == ' ' || piece.text.substr(0, replacement_.size()) == replacement_;
    const bool prepends = scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.n_at_start > 0);
    if (prepends && !starts) {
      buffer += replacement_;
      if (piece.n_at_start > 0) n_at_start += replacement_.size();
    }
    for (size_t at = 0; at < piece.text.size();) {
      const size_t space = std::min(piece.text.find(' ', at), piece.text.size());
      buffer.append(piece.text.substr(at, space - at));
      if (at < piece.n_at_start) n_at_start += std::min(space, piece.n_at_start) - at;
      at = space;
      if (at == piece.text.size()) break;
      buffer += replacement_;
      if (at < piece.n_at_start) n_at_start += replacement_.size();
      ++at;
    }
    const Piece whole = {buffer, n_at_start};
    if (split_) {
      split_at_marks(whole, sink);
    } else {
      sink.take(whole);
    }
  }

 private:
  // Merged with the next: every replacement begins a piece.
  void split_at_marks(const Piece& whole, PieceSink& sink) const {
    size_t begin = 0;
    while (begin < whole.text.size()) {
      const size_t end = std::min(whole.text.find(replacement_, begin + 1), whole.text.size());
      sink.take(whole.part(begin, end));
      begin = end;
    }
  }

  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

class WhiteSpaceWords final : public PreTokenizer {
  void split(const Piece& piece, Scratch&, std::string&, PieceSink& sink) const override {
    enum class Kind { kSpace, kWord, kOther };
    Kind last = Kind::kSpace;
    size_t begin = 0;
    const char* p = piece.text.data();
    const char* const end = p + piece.text.size();
    while (p < end) {
      const auto at = static_cast<size_t>(p - piece.text.data());
      const char32_t c = utf8::next(p);
      const Kind kind = unicode::is_word(c) ? Kind::kWord : unicode::is_white_space(c) ? Kind::kSpace : Kind::kOther;
      if (kind == last) continue;
      if (last != Kind::kSpace) sink.take(piece.part(begin, at));
      begin = at;
      last = kind;
    }
    if (last != Kind::kSpace) sink.take(piece.part(begin, piece.text.size()));
  }
};

class WhiteSpaceAndPunctuation final : public PreTokenizer {
  void split(const Piece& piece, Scratch&, std::string&, PieceSink& sink) const override {
    size_t begin = 0;
    const char* p = piece.text.data();
    const char* const end = p + piece.text.size();
    while (p < end) {
      const auto at = static_cast<size_t>(p - piece.text.data());
      const char32_t c = utf8::next(p);
      const bool space = unicode::is_white_space(c);
      if (!space && !is_any_punctuation(c)) continue;
      const auto after = static_cast<size_t>(p - piece.text.data());
      if (at > begin) sink.take(piece.part(begin, at));
      if (!space) sink.take(piece.part(at, after));
      begin = after;
    }
    sink.take(piece.part(begin, piece.text.size()));
  }
};

class UnicodeScripts final : public PreTokenizer {
  static int script_of(char32_t c) {
    if (c == 0x30FC) return unicode::han_script();
    if (c == ' ') return unicode::kNoScript;
    const int script = unicode::script_of(c);
    return script == unicode::hiragana_script() || script == unicode::katakana_script() ? unicode::han_script() : script;
  }

  // A space belongs to the script before it; text before the first script is dropped, as in the reference.
  void split(const Piece& piece, Scratch&, std::string&, PieceSink& sink) const override {
    constexpr int kNothingYet = -1;
    constexpr size_t kNone = static_cast<size_t>(-1);
    int last = kNothingYet;
    size_t begin = kNone;
    const char* p = piece.text.data();
    const char* const end = p + piece.text.size();
    while (p < end) {
      const auto at = static_cast<size_t>(p - piece.text.data());
      const int script = script_of(utf8::next(p));
      if (script == unicode::kNoScript) continue;
      if (script != last) {
        if (begin != kNone) sink.take(piece.part(begin, at));
        begin = at;
      }
      last = script;
    }
    if (begin != kNone) sink.take(piece.part(begin, piece.text.size()));
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(size_t n_characters) : n_characters_(n_characters) {}
  void split(const Piece& piece, Scratch&, std::string&, PieceSink& sink) const override {
    size_t begin = 0;
    size_t n = 0;
    for (size_t at = 0; at < piece.text.size(); at += utf8::size_of(piece.text[at])) {
      if (n == n_characters_) {
        sink.take(piece.part(begin, at));
        begin = at;
        n = 0;
      }
      ++n;
    }
    sink.take(piece.part(begin, piece.text.size()));
  }

 private:
  size_t n_characters_;
};

class PrefixSpace final : public PreTokenizer {
  void split(const Piece& piece, Scratch&, std::string& buffer, PieceSink& sink) const override {
    if (piece.text.front() == ' ') {
      sink.take(piece);
      return;
    }
    buffer.assign(" ");
    buffer.append(piece.text);
    sink.take({buffer, piece.n_at_start > 0 ? piece.n_at_start + 1 : 0});
  }
};

class ByteLevelCharacters final : public PreTokenizer {
  void split(const Piece& piece, Scratch&, std::string& buffer, PieceSink& sink) const override {
    buffer.clear();
    ByteAlphabet::instance().append_characters(buffer, piece.text.substr(0, piece.n_at_start));
    const size_t n_at_start = buffer.size();
    ByteAlphabet::instance().append_characters(buffer, piece.text.substr(piece.n_at_start));
    sink.take({buffer, n_at_start});
  }
};

}  // namespace

void run_steps(const PreTokenizers& steps, const Piece& piece, Scratch& scratch, size_t first_counter, PieceSink& last) {
  if (scratch.steps.size() < steps.size()) scratch.steps.resize(steps.size());
  const Chain chain = {steps, scratch, first_counter, last};
  Link(chain, 0).take(piece);
}

std::unique_ptr<const PreTokenizer> make_split(Regex pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<RegexSplit>(std::move(pattern), behavior, invert);
}
std::unique_ptr<const PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}
std::unique_ptr<const PreTokenizer> make_digits(bool individual) {
  return std::make_unique<CharacterSplit<unicode::is_number>>(individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}
std::unique_ptr<const PreTokenizer> make_punctuation(SplitBehavior behavior) {
  return std::make_unique<CharacterSplit<is_any_punctuation>>(behavior);
}
std::unique_ptr<const PreTokenizer> make_white_space_words() { return std::make_unique<WhiteSpaceWords>(); }
std::unique_ptr<const PreTokenizer> make_white_space_split() {
  return std::make_unique<CharacterSplit<unicode::is_white_space>>(SplitBehavior::kRemoved);
}
std::unique_ptr<const PreTokenizer> make_white_space_and_punctuation() { return std::make_unique<WhiteSpaceAndPunctuation>(); }
std::unique_ptr<const PreTokenizer> make_unicode_scripts() { return std::make_unique<UnicodeScripts>(); }
std::unique_ptr<const PreTokenizer> make_delimiter(char32_t delimiter) { return std::make_unique<Delimiter>(delimiter); }
std::unique_ptr<const PreTokenizer> make_fixed_length(size_t n_characters) { return std::make_unique<FixedLength>(n_characters); }
std::unique_ptr<const PreTokenizer> make_prefix_space() { return std::make_unique<PrefixSpace>(); }
std::unique_ptr<const PreTokenizer> make_byte_level_split() {
  return make_split(Regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"), SplitBehavior::kIsolated,
                    false);
}
std::unique_ptr<const PreTokenizer> make_byte_level_characters() { return std::make_unique<ByteLevelCharacters>(); }

}  // namespace kvik::text
