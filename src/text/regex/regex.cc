#include "text/regex/regex.h"

#include <array>
#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/utf8.h"
#include "kvik/error.h"
#include "text/regex/regex_syntax.h"

namespace kvik::text {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
constexpr size_t kFirstStackBytes = 32 << 10;
constexpr size_t kMaxStackBytes = 16 << 20;
constexpr uint32_t kMatchLimit = 20'000'000;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> buffer;
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

RegexScratch::RegexScratch()
    : data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      stack_(pcre2_jit_stack_create(kFirstStackBytes, kMaxStackBytes, nullptr)) {
  if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(context_, kMatchLimit);
  pcre2_set_heap_limit(context_, 64 << 10);  // KB
  if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
}

RegexScratch::~RegexScratch() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
  if (stack_ != nullptr) pcre2_jit_stack_free(stack_);
}

Regex::Regex(std::string_view pattern) : Regex(Raw{}, std::string(pattern), to_pcre2(pattern)) {}

Regex Regex::literal(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    const bool plain = static_cast<unsigned char>(c) >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    quoted += plain ? std::string(1, c) : fmt::format("\\x{{{:x}}}", static_cast<unsigned char>(c));
  }
  return Regex(Raw{}, std::string(text), quoted);
}

Regex::Regex(Raw, std::string pattern, std::string translated) : pattern_(std::move(pattern)) {
  if (translated.size() > kMaxPatternBytes) {
    throw Error(Code::kTooLarge, fmt::format("a pattern has {} bytes; at most {} are allowed", translated.size(), kMaxPatternBytes));
  }
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(pcre2_compile_context_create(nullptr),
                                                                                         pcre2_compile_context_free);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_DUPNAMES;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), kOptions, &error, &at, context.get());
  if (code == nullptr) { throw Error(Code::kBadModel, fmt::format("the pattern '{}' does not compile: {}", pattern_, message_of(error))); }
  code_ = std::shared_ptr<pcre2_code>(code, pcre2_code_free);
  jit_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
}

bool Matches::search(size_t& begin, size_t& end) {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  const int found =
      regex_.jit_ ? pcre2_jit_match(regex_.code_.get(), subject, text_.size(), at_, 0, scratch_.data_, scratch_.context_)
                  : pcre2_match(regex_.code_.get(), subject, text_.size(), at_, PCRE2_NO_UTF_CHECK, scratch_.data_, scratch_.context_);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {
    throw Error(Code::kBadModel, fmt::format("the pattern '{}' backtracks too far in a text of {} bytes ({}); simplify the pattern",
                                             regex_.pattern_, text_.size(), message_of(found)));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch_.data_);
  begin = offsets[0];
  end = offsets[1];
  return true;
}

bool Matches::next(size_t& begin, size_t& end) {
  while (at_ <= text_.size() && search(begin, end)) {
    if (begin != end || end != last_end_) {
      at_ = end;
      last_end_ = end;
      return true;
    }
    at_ += at_ < text_.size() ? utf8::size_of(text_[at_]) : 1;
  }
  at_ = text_.size() + 1;
  return false;
}

}  // namespace kvik::text
