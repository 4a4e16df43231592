#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex/regex.h"

namespace kvik::text {

// One decoding step of one sequence: takes tokens one by one and passes on what is certain, so that decoding a whole sequence and
// streaming are the same code. Keeps its buffers, so that steady state allocates nothing per token.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void push(std::string_view token) = 0;
  virtual void finish() = 0;  // the sequence ends; nothing may follow
  // How many bytes push() accepts; a step that replaces text asks before it writes. See GrowthLimit.
  virtual size_t room() const { return std::string::npos; }
};

// The last step: appends to a text, which must outlive it.
class TextSink final : public DecodeStep {
 public:
  explicit TextSink(std::string& out) : out_(out) {}
  void push(std::string_view text) override { out_.append(text); }
  void finish() override {}

 private:
  std::string& out_;
};

// Creates decoding steps. Immutable: any thread may start one.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // `next` must outlive the step.
  virtual std::unique_ptr<DecodeStep> start(DecodeStep& next) const = 0;
  // For input after a step that joins all tokens: one token in several parts.
  virtual std::unique_ptr<DecodeStep> start_joined(DecodeStep& next) const;
  // A step that passes on bytes as they come, even if they are not a whole character.
  virtual std::unique_ptr<DecodeStep> start_bytes(DecodeStep& next) const { return start(next); }
  // Whether it joins all tokens into one.
  virtual bool joins() const { return false; }
};

using Decoders = std::vector<std::unique_ptr<const Decoder>>;

std::unique_ptr<const Decoder> make_byte_level_decoder();
std::unique_ptr<const Decoder> make_byte_fallback_decoder();
std::unique_ptr<const Decoder> make_fuse_decoder();
std::unique_ptr<const Decoder> make_strip_decoder(char32_t character, size_t n_left, size_t n_right);
std::unique_ptr<const Decoder> make_replace_decoder(std::string what, std::string with);
std::unique_ptr<const Decoder> make_replace_pattern_decoder(Regex what, std::string with);
std::unique_ptr<const Decoder> make_metaspace_decoder(std::string replacement, bool drops_first);
std::unique_ptr<const Decoder> make_wordpiece_decoder(std::string prefix, bool clean_up);
std::unique_ptr<const Decoder> make_ctc_decoder(std::string pad, std::string word_delimiter, bool clean_up);
std::unique_ptr<const Decoder> make_suffix_decoder(std::string suffix);
// The decoder if a file names none: a space between the tokens.
std::unique_ptr<const Decoder> make_spaces_decoder();
// Drops the white space at both ends of the text, as Python's strip() defines it.
std::unique_ptr<const Decoder> make_trim_decoder();

}  // namespace kvik::text
