#include "text/steps/normalizer.h"

#include "base/utf8.h"
#include "text/unicode/byte_alphabet.h"

namespace kvik::text {
namespace {

// For normalizers that replace one character after the other: what comes from the start is what the start becomes.
template <class Rewrite>
void rewrite_characters(Stretch& stretch, Scratch& scratch, Rewrite&& rewrite) {
  if (stretch.n_at_start > 0) {
    scratch.spare.clear();
    rewrite(std::string_view(stretch.text).substr(0, stretch.n_at_start), scratch.spare);
    stretch.n_at_start = scratch.spare.size();
  }
  scratch.spare.clear();
  rewrite(std::string_view(stretch.text), scratch.spare);
  stretch.text.swap(scratch.spare);
}

class Characterwise : public Normalizer {
 public:
  void apply(Stretch& stretch, Scratch& scratch) const final {
    rewrite_characters(stretch, scratch, [&](std::string_view text, std::string& out) { rewrite(text, out); });
  }

 protected:
  virtual void rewrite(std::string_view text, std::string& out) const = 0;
};

template <class F>
void for_each_character(std::string_view text, F&& f) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char* const begin = p;
    const char32_t c = utf8::next(p);
    f(c, std::string_view(begin, static_cast<size_t>(p - begin)));
  }
}

class FormNormalizer final : public Characterwise {
 public:
  explicit FormNormalizer(unicode::Form form) : form_(form) {}

 private:
  void rewrite(std::string_view text, std::string& out) const override { unicode::append_normalized(out, text, form_); }
  unicode::Form form_;
};

class Lowercase final : public Characterwise {
  void rewrite(std::string_view text, std::string& out) const override {
    for_each_character(text, [&](char32_t c, std::string_view) { unicode::append_lower(out, c); });
  }
};

class StripAccents final : public Characterwise {
  void rewrite(std::string_view text, std::string& out) const override {
    for_each_character(text, [&](char32_t c, std::string_view bytes) {
      if (!unicode::is_mark(c)) out.append(bytes);
    });
  }
};

// The rules of SentencePiece's "nmt" normalization besides its table.
class Nmt final : public Characterwise {
  static bool drops(char32_t c) {
    return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  }
  static bool is_blank(char32_t c) {
    return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
           c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
  void rewrite(std::string_view text, std::string& out) const override {
    for_each_character(text, [&](char32_t c, std::string_view bytes) {
      if (!drops(c)) out.append(is_blank(c) ? std::string_view(" ") : bytes);
    });
  }
};

class ByteLevelNormalizer final : public Characterwise {
  void rewrite(std::string_view text, std::string& out) const override { ByteAlphabet::instance().append_characters(out, text); }
};

// A grapheme cluster of less than 6 bytes is replaced as a whole by the replacement of its shortest matching prefix; others by character.
class CharsmapNormalizer final : public Normalizer {
 public:
  explicit CharsmapNormalizer(Charsmap charsmap) : charsmap_(std::move(charsmap)) {
    for (uint8_t c = 0; c < 128; ++c) {
      const char byte = static_cast<char>(c);
      plain_[c] = charsmap_.shortest({&byte, 1}).size == 0;
    }
  }
  void apply(Stretch& stretch, Scratch& scratch) const override {
    const size_t max_bytes = stretch.max_bytes;
    rewrite_characters(stretch, scratch, [&](std::string_view text, std::string& out) { rewrite(text, out, max_bytes); });
  }

 private:
  static constexpr size_t kMaxCluster = 6;

  bool is_plain(char c) const { return static_cast<uint8_t>(c) < 128 && c != '\r' && plain_[static_cast<uint8_t>(c)]; }

  void rewrite(std::string_view text, std::string& out, size_t max_bytes) const {
    for (size_t begin = 0; begin < text.size();) {
      if (out.size() > max_bytes) GrowthLimit::refuse();
      size_t end = begin;
      while (end < text.size() && is_plain(text[end])) ++end;
      if (end > begin && end < text.size() && static_cast<uint8_t>(text[end]) >= 128) --end;  // a combining mark may follow the last one
      if (end > begin) {
        out.append(text.substr(begin, end - begin));
        begin = end;
        continue;
      }
      end = unicode::grapheme_end(text, begin);
      rewrite_cluster(text.substr(begin, end - begin), out);
      begin = end;
    }
  }

  void rewrite_cluster(std::string_view cluster, std::string& out) const {
    if (cluster.size() < kMaxCluster) {
      if (const Charsmap::Match match = charsmap_.shortest(cluster); match.size > 0) {
        out.append(match.replacement);
        return;
      }
    }
    for_each_character(cluster, [&](char32_t, std::string_view bytes) {
      const Charsmap::Match match = charsmap_.shortest(bytes);
      out.append(match.size > 0 ? match.replacement : bytes);
    });
  }

  Charsmap charsmap_;
  std::array<bool, 128> plain_;
};

class Clean final : public Characterwise {
 public:
  explicit Clean(CleanOptions options) : options_(options) {}

 private:
  static bool is_chinese(char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  }

  void rewrite(std::string_view text, std::string& out) const override {
    if (utf8::is_ascii(text)) {
      rewrite_ascii(text, out);
      return;
    }
    std::string first;
    for_each_character(text, [&](char32_t c, std::string_view bytes) { clean(c, bytes, first); });
    std::string second;
    if (options_.strip_accents) {
      std::string decomposed;
      unicode::append_normalized(decomposed, first, unicode::Form::kNfd);
      for_each_character(decomposed, [&](char32_t c, std::string_view bytes) {
        if (!unicode::is_nonspacing_mark(c)) second.append(bytes);
      });
    } else {
      second.swap(first);
    }
    if (!options_.lowercase) {
      out.append(second);
      return;
    }
    for_each_character(second, [&](char32_t c, std::string_view) { unicode::append_lower(out, c); });
  }

  void clean(char32_t c, std::string_view bytes, std::string& out) const {
    if (options_.clean_text) {
      const bool line_white_space = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xFFFD || (!line_white_space && unicode::is_other(c))) return;
      if (line_white_space || unicode::is_white_space(c)) {
        out += ' ';
        return;
      }
    }
    if (options_.space_chinese && is_chinese(c)) {
      out += ' ';
      out.append(bytes);
      out += ' ';
      return;
    }
    out.append(bytes);
  }

  void rewrite_ascii(std::string_view text, std::string& out) const {
    const size_t before = out.size();
    out.resize(before + text.size());
    char* write = out.data() + before;
    for (const char c : text) {
      if (options_.clean_text && (static_cast<uint8_t>(c) < 32 || c == 127)) {
        if (c == '\t' || c == '\n' || c == '\r') *write++ = ' ';
        continue;
      }
      *write++ = options_.lowercase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
    out.resize(static_cast<size_t>(write - out.data()));
  }

  CleanOptions options_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void apply(Stretch& stretch, Scratch&) const override {
    size_t begin = 0;
    size_t end = stretch.text.size();
    while (left_ && begin < end) {
      const char* p = stretch.text.data() + begin;
      if (!unicode::is_white_space(utf8::next(p))) break;
      begin = static_cast<size_t>(p - stretch.text.data());
    }
    while (right_ && end > begin) {
      size_t last = end - 1;
      while (!utf8::begins_character(stretch.text[last])) --last;
      const char* p = stretch.text.data() + last;
      if (!unicode::is_white_space(utf8::next(p))) break;
      end = last;
    }
    stretch.n_at_start = stretch.n_at_start > begin ? std::min(stretch.n_at_start, end) - begin : 0;
    stretch.text.erase(end);
    stretch.text.erase(0, begin);
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(Stretch& stretch, Scratch&) const override {
    if (stretch.text.empty()) return;
    stretch.text.insert(0, prefix_);
    if (stretch.n_at_start > 0) stretch.n_at_start += prefix_.size();
  }

 private:
  std::string prefix_;
};

// Used by both kinds of Replace. A replacement counts as coming from where the last byte of its match comes from.
class ReplaceWriter {
 public:
  ReplaceWriter(const Stretch& stretch, std::string_view with, std::string& out) : stretch_(stretch), with_(with), out_(out) {}
  void replace(size_t begin, size_t end) {
    copy_to(begin);
    if (out_.size() + with_.size() > stretch_.max_bytes) GrowthLimit::refuse();
    if (stretch_.n_at_start > 0 && (end == 0 || end - 1 < stretch_.n_at_start)) n_at_start_ += with_.size();
    out_.append(with_);
    at_ = end;
  }
  size_t finish() {
    copy_to(stretch_.text.size());
    return n_at_start_;
  }

 private:
  void copy_to(size_t end) {
    if (end <= at_) return;
    if (at_ < stretch_.n_at_start) n_at_start_ += std::min(end, stretch_.n_at_start) - at_;
    out_.append(stretch_.text, at_, end - at_);
    at_ = end;
  }

  const Stretch& stretch_;
  std::string_view with_;
  std::string& out_;
  size_t at_ = 0;
  size_t n_at_start_ = 0;
};

class ReplaceText final : public Normalizer {
 public:
  ReplaceText(std::string_view what, std::string with) : what_(what), with_(std::move(with)) {}
  void apply(Stretch& stretch, Scratch& scratch) const override {
    size_t found = stretch.text.find(what_);
    if (found == std::string::npos) return;
    scratch.spare.clear();
    ReplaceWriter writer(stretch, with_, scratch.spare);
    for (; found != std::string::npos; found = stretch.text.find(what_, found + what_.size())) {
      writer.replace(found, found + what_.size());
    }
    stretch.n_at_start = writer.finish();
    stretch.text.swap(scratch.spare);
  }

 private:
  std::string what_;
  std::string with_;
};

class ReplacePattern final : public Normalizer {
 public:
  ReplacePattern(Regex what, std::string with) : what_(std::move(what)), with_(std::move(with)) {}
  void apply(Stretch& stretch, Scratch& scratch) const override {
    if (stretch.text.empty()) return;
    scratch.spare.clear();
    ReplaceWriter writer(stretch, with_, scratch.spare);
    Matches matches(what_, scratch.regex, stretch.text);
    for (size_t begin, end; matches.next(begin, end);) writer.replace(begin, end);
    stretch.n_at_start = writer.finish();
    stretch.text.swap(scratch.spare);
  }

 private:
  Regex what_;
  std::string with_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_form(unicode::Form form) { return std::make_unique<FormNormalizer>(form); }
std::unique_ptr<const Normalizer> make_lowercase() { return std::make_unique<Lowercase>(); }
std::unique_ptr<const Normalizer> make_strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }
std::unique_ptr<const Normalizer> make_strip_accents() { return std::make_unique<StripAccents>(); }
std::unique_ptr<const Normalizer> make_nmt() { return std::make_unique<Nmt>(); }
std::unique_ptr<const Normalizer> make_prepend(std::string prefix) { return std::make_unique<Prepend>(std::move(prefix)); }
std::unique_ptr<const Normalizer> make_replace_text(std::string_view what, std::string with) {
  if (what.empty()) return make_replace_pattern(Regex::literal(what), std::move(with));  // matches between all characters
  return std::make_unique<ReplaceText>(what, std::move(with));
}
std::unique_ptr<const Normalizer> make_replace_pattern(Regex what, std::string with) {
  return std::make_unique<ReplacePattern>(std::move(what), std::move(with));
}
std::unique_ptr<const Normalizer> make_charsmap(Charsmap charsmap) { return std::make_unique<CharsmapNormalizer>(std::move(charsmap)); }
std::unique_ptr<const Normalizer> make_byte_level_normalizer() { return std::make_unique<ByteLevelNormalizer>(); }
std::unique_ptr<const Normalizer> make_clean(CleanOptions options) { return std::make_unique<Clean>(options); }

}  // namespace kvik::text
