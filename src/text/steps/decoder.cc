#include "text/steps/decoder.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/steps/decoder_steps.h"
#include "text/unicode/byte_alphabet.h"
#include "text/unicode/unicode.h"

namespace kvik::text {
namespace {

// Collects all parts and passes them on as one token: correct for any decoder, but without output before the end.
class HoldStep final : public DecodeStep {
 public:
  HoldStep(const Decoder& decoder, DecodeStep& next) : step_(decoder.start(next)) {}
  void push(std::string_view part) override { text_.append(part); }
  void finish() override {
    step_->push(text_);
    step_->finish();
  }

 private:
  std::unique_ptr<DecodeStep> step_;
  std::string text_;
};

// The bytes of tokens in the byte alphabet, other tokens unchanged; invalid UTF-8 becomes U+FFFD once it is certain.
class ByteLevelStep final : public DecodeStep {
 public:
  explicit ByteLevelStep(DecodeStep& next) : next_(next) {}
  void push(std::string_view token) override {
    if (!ByteAlphabet::instance().append_bytes(bytes_, token)) bytes_.append(token);
    size_t done = 0;
    text_.clear();
    while (done < bytes_.size()) {
      const std::string_view rest = std::string_view(bytes_).substr(done);
      const size_t valid = utf8::valid_prefix_bytes(rest);
      text_.append(rest.substr(0, valid));
      done += valid;
      if (done == bytes_.size()) break;
      const utf8::Step step = utf8::step(rest.substr(valid));
      if (step.incomplete) break;
      text_.append(utf8::kReplacement);
      done += step.size;
    }
    bytes_.erase(0, done);
    if (!text_.empty()) next_.push(text_);
  }
  void finish() override {
    if (!bytes_.empty()) next_.push(utf8::kReplacement);  // an incomplete character
    next_.finish();
  }

 private:
  DecodeStep& next_;
  std::string bytes_;
  std::string text_;
};

class ByteLevelBytesStep final : public TokenwiseStep {
 public:
  using TokenwiseStep::TokenwiseStep;

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    if (!ByteAlphabet::instance().append_bytes(out, token)) out.assign(token);
    return true;
  }
};

class ByteLevelDecoder final : public Decoder {
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<ByteLevelStep>(next); }
  std::unique_ptr<DecodeStep> start_bytes(DecodeStep& next) const override { return std::make_unique<ByteLevelBytesStep>(next); }
  bool joins() const override { return true; }
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// <0x41>; the reference also accepts a plus sign.
bool read_byte_token(std::string_view token, int& byte) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return false;
  const int high = token[3] == '+' ? 0 : hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  byte = high * 16 + low;
  return high >= 0 && low >= 0;
}

class ByteFallbackBytesStep final : public TokenwiseStep {
 public:
  using TokenwiseStep::TokenwiseStep;

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    int byte;
    if (read_byte_token(token, byte)) {
      out += static_cast<char>(byte);
    } else {
      out.assign(token);
    }
    return true;
  }
};

// A run of byte tokens that is valid UTF-8 as a whole becomes text, otherwise one U+FFFD per token.
class ByteFallbackStep final : public DecodeStep {
 public:
  explicit ByteFallbackStep(DecodeStep& next) : next_(next) {}
  void push(std::string_view token) override {
    int byte;
    if (read_byte_token(token, byte)) {
      run_ += static_cast<char>(byte);
      return;
    }
    end_run();
    next_.push(token);
  }
  void finish() override {
    end_run();
    next_.finish();
  }

 private:
  void end_run() {
    if (run_.empty()) return;
    if (utf8::is_valid(run_)) {
      next_.push(run_);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) next_.push(utf8::kReplacement);
    }
    run_.clear();
  }

  DecodeStep& next_;
  std::string run_;
};

class ByteFallbackDecoder final : public Decoder {
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<ByteFallbackStep>(next); }
  std::unique_ptr<DecodeStep> start_bytes(DecodeStep& next) const override { return std::make_unique<ByteFallbackBytesStep>(next); }
};

class PassStep final : public DecodeStep {
 public:
  explicit PassStep(DecodeStep& next) : next_(next) {}
  void push(std::string_view token) override { next_.push(token); }
  void finish() override { next_.finish(); }

 private:
  DecodeStep& next_;
};

class FuseDecoder final : public Decoder {
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<PassStep>(next); }
  std::unique_ptr<DecodeStep> start_joined(DecodeStep& next) const override { return start(next); }
  bool joins() const override { return true; }
};

struct StripRule {
  std::string character;
  size_t n_left, n_right;
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

class StripStep final : public TokenwiseStep {
 public:
  StripStep(const StripRule& rule, DecodeStep& next) : TokenwiseStep(next), rule_(rule) {}

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    const std::string_view character = rule_.character;
    size_t begin = 0;
    for (size_t i = 0; i < rule_.n_left && token.substr(begin, character.size()) == character; ++i) begin += character.size();
    size_t end = token.size();
    for (size_t i = 0; i < rule_.n_right && ends_with(token.substr(0, end), character); ++i) end -= character.size();
    if (begin < end) out.append(token.substr(begin, end - begin));
    return true;
  }
  const StripRule& rule_;
};

// The same for a text in parts: holds back a possible end.
class StripTextStep final : public DecodeStep {
 public:
  StripTextStep(const StripRule& rule, DecodeStep& next) : rule_(rule), next_(next), n_left_(rule.n_left) {}
  void push(std::string_view part) override {
    const size_t size = rule_.character.size();
    while (n_left_ > 0 && !part.empty()) {
      if (part.substr(0, size) != rule_.character) {
        n_left_ = 0;
        break;
      }
      part.remove_prefix(size);
      --n_left_;
    }
    if (part.empty()) return;
    if (rule_.n_right == 0) {
      next_.push(part);
      return;
    }
    held_.append(part);
    size_t end = held_.size();
    for (size_t i = 0; i < rule_.n_right && ends_with(std::string_view(held_).substr(0, end), rule_.character); ++i) end -= size;
    if (end > 0) next_.push(std::string_view(held_).substr(0, end));
    held_.erase(0, end);
  }
  void finish() override { next_.finish(); }

 private:
  const StripRule& rule_;
  DecodeStep& next_;
  size_t n_left_;
  std::string held_;
};

class StripDecoder final : public SimpleDecoder<StripRule, StripStep> {
 public:
  using SimpleDecoder::SimpleDecoder;
  std::unique_ptr<DecodeStep> start_joined(DecodeStep& next) const override { return std::make_unique<StripTextStep>(rule_, next); }
};

struct MetaspaceRule {
  std::string replacement;
  bool drops_first;
};

class MetaspaceStep final : public TokenwiseStep {
 public:
  MetaspaceStep(const MetaspaceRule& rule, DecodeStep& next, bool joined = false)
      : TokenwiseStep(next), rule_(rule), drops_(rule.drops_first), joined_(joined) {}

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    append_replacing(out, token, {rule_.replacement, drops_ ? "" : " "}, next_.room());
    if (!joined_) drops_ = false;  // all of a joined text is the first token
    return true;
  }
  const MetaspaceRule& rule_;
  bool drops_;
  bool joined_;
};

class MetaspaceDecoder final : public SimpleDecoder<MetaspaceRule, MetaspaceStep> {
 public:
  using SimpleDecoder::SimpleDecoder;
  std::unique_ptr<DecodeStep> start_joined(DecodeStep& next) const override { return std::make_unique<MetaspaceStep>(rule_, next, true); }
};

class SpacesStep final : public DecodeStep {
 public:
  explicit SpacesStep(DecodeStep& next) : next_(next) {}
  void push(std::string_view token) override {
    if (!first_) next_.push(" ");
    first_ = false;
    next_.push(token);
  }
  void finish() override { next_.finish(); }

 private:
  DecodeStep& next_;
  bool first_ = true;
};

class SpacesDecoder final : public Decoder {
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<SpacesStep>(next); }
};

class TrimStep final : public DecodeStep {
 public:
  explicit TrimStep(DecodeStep& next) : next_(next) {}
  void push(std::string_view part) override {
    size_t end = part.size();  // after the last character that is not white space
    while (end > 0) {
      size_t begin = end - 1;
      while (!utf8::begins_character(part[begin])) --begin;
      const char* p = part.data() + begin;
      if (!is_python_space(utf8::next(p))) break;
      end = begin;
    }
    if (end == 0) {
      if (started_) held_.append(part);
      return;
    }
    size_t begin = 0;
    while (!started_) {
      const char* p = part.data() + begin;
      if (!is_python_space(utf8::next(p))) break;
      begin = static_cast<size_t>(p - part.data());
    }
    started_ = true;
    if (!held_.empty()) next_.push(held_);
    next_.push(part.substr(begin, end - begin));
    held_.assign(part.substr(end));
  }
  void finish() override { next_.finish(); }

 private:
  static bool is_python_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || unicode::is_white_space(c); }

  DecodeStep& next_;
  bool started_ = false;
  std::string held_;
};

class TrimDecoder final : public Decoder {
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<TrimStep>(next); }
  std::unique_ptr<DecodeStep> start_joined(DecodeStep& next) const override { return start(next); }
  bool joins() const override { return true; }
};

}  // namespace

std::unique_ptr<DecodeStep> Decoder::start_joined(DecodeStep& next) const { return std::make_unique<HoldStep>(*this, next); }

std::unique_ptr<const Decoder> make_byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }
std::unique_ptr<const Decoder> make_byte_fallback_decoder() { return std::make_unique<ByteFallbackDecoder>(); }
std::unique_ptr<const Decoder> make_fuse_decoder() { return std::make_unique<FuseDecoder>(); }
std::unique_ptr<const Decoder> make_strip_decoder(char32_t character, size_t n_left, size_t n_right) {
  StripRule rule = {{}, n_left, n_right};
  utf8::append(rule.character, character);
  return std::make_unique<StripDecoder>(std::move(rule));
}
std::unique_ptr<const Decoder> make_metaspace_decoder(std::string replacement, bool drops_first) {
  return std::make_unique<MetaspaceDecoder>(MetaspaceRule{std::move(replacement), drops_first});
}
std::unique_ptr<const Decoder> make_spaces_decoder() { return std::make_unique<SpacesDecoder>(); }
std::unique_ptr<const Decoder> make_trim_decoder() { return std::make_unique<TrimDecoder>(); }

}  // namespace kvik::text
