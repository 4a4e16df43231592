#include <array>

#include "base/utf8.h"
#include "text/steps/decoder_steps.h"
#include "text/unicode/growth_limit.h"

namespace kvik::text {

namespace {

void append_limited(std::string& out, std::string_view with, size_t max_bytes) {
  if (out.size() + with.size() > max_bytes) GrowthLimit::refuse();
  out.append(with);
}

}  // namespace

void append_replacing(std::string& out, std::string_view text, const Replacement& replacement, size_t max_bytes) {
  const auto& [what, with] = replacement;
  if (what.empty()) {
    append_limited(out, with, max_bytes);
    for (size_t at = 0; at < text.size();) {
      const size_t size = utf8::size_of(text[at]);
      out.append(text.substr(at, size));
      append_limited(out, with, max_bytes);
      at += size;
    }
    return;
  }
  size_t at = 0;
  for (size_t found = text.find(what); found != std::string_view::npos; found = text.find(what, at)) {
    out.append(text.substr(at, found - at));
    append_limited(out, with, max_bytes);
    at = found + what.size();
  }
  out.append(text.substr(at));
}

namespace {

struct ReplaceRule {
  std::string what, with;
};

class ReplaceStep final : public TokenwiseStep {
 public:
  ReplaceStep(const ReplaceRule& rule, DecodeStep& next) : TokenwiseStep(next), rule_(rule) {}

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    if (!token.empty()) append_replacing(out, token, {rule_.what, rule_.with}, next_.room());
    return true;
  }
  const ReplaceRule& rule_;
};

// For a text in parts: holds back an end that may begin a match.
class ReplaceTextStep final : public DecodeStep {
 public:
  ReplaceTextStep(const ReplaceRule& rule, DecodeStep& next) : rule_(rule), next_(next) {}
  void push(std::string_view part) override {
    held_.append(part);
    out_.clear();
    size_t at = 0;
    for (size_t found = held_.find(rule_.what); found != std::string::npos; found = held_.find(rule_.what, at)) {
      out_.append(held_, at, found - at);
      append_limited(out_, rule_.with, next_.room());
      at = found + rule_.what.size();
    }
    size_t keep = std::min(rule_.what.size() - 1, held_.size() - at);
    while (keep > 0 && held_.compare(held_.size() - keep, keep, rule_.what, 0, keep) != 0) --keep;
    out_.append(held_, at, held_.size() - keep - at);
    held_.erase(0, held_.size() - keep);
    if (!out_.empty()) next_.push(out_);
  }
  void finish() override {
    if (!held_.empty()) next_.push(held_);
    next_.finish();
  }

 private:
  const ReplaceRule& rule_;
  DecodeStep& next_;
  std::string held_;
  std::string out_;
};

class ReplaceDecoder final : public SimpleDecoder<ReplaceRule, ReplaceStep> {
 public:
  using SimpleDecoder::SimpleDecoder;
  std::unique_ptr<DecodeStep> start_joined(DecodeStep& next) const override {
    if (rule_.what.empty()) return SimpleDecoder::start_joined(next);
    return std::make_unique<ReplaceTextStep>(rule_, next);
  }
};

struct PatternRule {
  Regex what;
  std::string with;
};

class PatternStep final : public TokenwiseStep {
 public:
  PatternStep(const PatternRule& rule, DecodeStep& next) : TokenwiseStep(next), rule_(rule) {}

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    if (token.empty()) return true;
    Matches matches(rule_.what, scratch_, token);
    size_t at = 0;
    for (size_t begin, end; matches.next(begin, end);) {
      if (begin > at) out.append(token.substr(at, begin - at));
      append_limited(out, rule_.with, next_.room());
      at = end;
    }
    out.append(token.substr(at));
    return true;
  }
  const PatternRule& rule_;
  RegexScratch scratch_;
};

void clean_up(std::string& text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{{" .", "."},
                                                                                            {" ?", "?"},
                                                                                            {" !", "!"},
                                                                                            {" ,", ","},
                                                                                            {" ' ", "'"},
                                                                                            {" n't", "n't"},
                                                                                            {" 'm", "'m"},
                                                                                            {" do not", " don't"},
                                                                                            {" 's", "'s"},
                                                                                            {" 've", "'ve"},
                                                                                            {" 're", "'re"}}};
  for (const auto& [what, with] : kRules) {
    if (text.find(what) == std::string::npos) continue;
    std::string replaced;
    append_replacing(replaced, text, {what, with}, std::string::npos);
    text.swap(replaced);
  }
}

struct WordPieceRule {
  std::string prefix;
  bool cleans_up;
};

class WordPieceStep final : public TokenwiseStep {
 public:
  WordPieceStep(const WordPieceRule& rule, DecodeStep& next) : TokenwiseStep(next), rule_(rule) {}

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    if (!first_) {
      if (token.substr(0, rule_.prefix.size()) == rule_.prefix) {
        token.remove_prefix(rule_.prefix.size());
      } else {
        out += ' ';
      }
    }
    first_ = false;
    out.append(token);
    if (rule_.cleans_up) clean_up(out);
    return true;
  }
  const WordPieceRule& rule_;
  bool first_ = true;
};

struct CtcRule {
  std::string pad, word_delimiter;
  bool cleans_up;
};

class CtcStep final : public TokenwiseStep {
 public:
  CtcStep(const CtcRule& rule, DecodeStep& next) : TokenwiseStep(next), rule_(rule) {}

 private:
  bool rewrite(std::string_view token, std::string& out) override {
    if (any_ && token == last_) return false;
    any_ = true;
    last_.assign(token);
    append_replacing(out, token, {rule_.pad, ""}, next_.room());
    if (rule_.cleans_up) {
      clean_up(out);
      delimited_.clear();
      append_replacing(delimited_, out, {rule_.word_delimiter, " "}, next_.room());
      out.swap(delimited_);
    }
    return !out.empty();
  }
  const CtcRule& rule_;
  bool any_ = false;
  std::string last_;
  std::string delimited_;
};

// The end-of-word suffix becomes a space, except in the last token: a token that contains it waits for the next.
class SuffixStep final : public DecodeStep {
 public:
  SuffixStep(const std::string& suffix, DecodeStep& next) : suffix_(suffix), next_(next) {}
  void push(std::string_view token) override {
    release(" ");
    if (token.find(suffix_) == std::string_view::npos) {
      next_.push(token);
      return;
    }
    held_.assign(token);
    holds_ = true;
  }
  void finish() override {
    release("");
    next_.finish();
  }

 private:
  void release(std::string_view with) {
    if (!holds_) return;
    out_.clear();
    append_replacing(out_, held_, {suffix_, with}, next_.room());
    holds_ = false;
    next_.push(out_);
  }

  const std::string& suffix_;
  DecodeStep& next_;
  std::string held_;
  std::string out_;
  bool holds_ = false;
};

}  // namespace

std::unique_ptr<const Decoder> make_replace_decoder(std::string what, std::string with) {
  return std::make_unique<ReplaceDecoder>(ReplaceRule{std::move(what), std::move(with)});
}
std::unique_ptr<const Decoder> make_replace_pattern_decoder(Regex what, std::string with) {
  return std::make_unique<SimpleDecoder<PatternRule, PatternStep>>(PatternRule{std::move(what), std::move(with)});
}
std::unique_ptr<const Decoder> make_wordpiece_decoder(std::string prefix, bool cleans_up) {
  return std::make_unique<SimpleDecoder<WordPieceRule, WordPieceStep>>(WordPieceRule{std::move(prefix), cleans_up});
}
std::unique_ptr<const Decoder> make_ctc_decoder(std::string pad, std::string word_delimiter, bool cleans_up) {
  return std::make_unique<SimpleDecoder<CtcRule, CtcStep>>(CtcRule{std::move(pad), std::move(word_delimiter), cleans_up});
}
std::unique_ptr<const Decoder> make_suffix_decoder(std::string suffix) {
  return std::make_unique<SimpleDecoder<std::string, SuffixStep>>(std::move(suffix));
}

}  // namespace kvik::text
