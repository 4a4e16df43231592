#include "text/token_bytes.h"

#include <algorithm>

#include "base/utf8.h"
#include "kvik/error.h"
#include "text/tokenizer_core.h"

namespace kvik::text {
namespace {

constexpr int kProbes = 256;
constexpr size_t kProbeTokens = 8;

std::vector<std::string> bytes_of_first_tokens(const TokenizerCore& core) {
  std::vector<std::string> bytes(static_cast<size_t>(core.end_id()));
  for (TokenId id = 0; id < core.end_id(); ++id) core.start_decoding_bytes(bytes[static_cast<size_t>(id)])->push(id);
  return bytes;
}

// `start`: a token with text, so that none of the others is the first.
std::vector<std::string> bytes_of_later_tokens(const TokenizerCore& core, TokenId start) {
  std::vector<std::string> bytes(static_cast<size_t>(core.end_id()));
  std::string text;
  const std::unique_ptr<DecodeRun> run = core.start_decoding_bytes(text);
  run->push(start);
  for (TokenId id = 0; id < core.end_id(); ++id) {
    text.clear();
    run->push(id);
    bytes[static_cast<size_t>(id)] = text;
  }
  return bytes;
}

// Decodes pseudo-random sequences of tokens, the same every time.
void check(const Tokenizer& tokenizer, const TokenBytes& bytes) {
  std::vector<TokenId> usable;
  for (TokenId id = 0; id < tokenizer.end_id(); ++id) {
    const auto i = static_cast<size_t>(id);
    if (!bytes.first[i].empty() && utf8::is_valid(bytes.first[i]) && utf8::is_valid(bytes.later[i])) usable.push_back(id);
  }
  bool sound = !usable.empty();
  uint64_t random = 1;
  for (int i = 0; i < kProbes && sound; ++i) {
    std::vector<TokenId> ids;
    std::string expected;
    for (size_t j = 0; j < kProbeTokens; ++j) {
      random = random * 6364136223846793005 + 1442695040888963407;
      ids.push_back(usable[(random >> 33) % usable.size()]);
      expected += (j == 0 ? bytes.first : bytes.later)[static_cast<size_t>(ids.back())];
    }
    sound = tokenizer.decode(ids) == expected;
  }
  if (!sound)
    throw Error(Code::kUnsupported,
                "constraints are not supported with this tokenizer: the text of a token depends on the tokens around it");
}

}  // namespace

TokenBytes token_bytes(const Tokenizer& tokenizer) {
  const TokenizerCore& core = tokenizer.core();
  TokenBytes bytes{bytes_of_first_tokens(core), {}};
  const auto start = std::ranges::find_if(bytes.first, [](const std::string& text) { return !text.empty() && utf8::is_valid(text); });
  bytes.later = start == bytes.first.end() ? bytes.first : bytes_of_later_tokens(core, static_cast<TokenId>(start - bytes.first.begin()));
  check(tokenizer, bytes);
  return bytes;
}

}  // namespace kvik::text
