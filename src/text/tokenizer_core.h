#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "text/models/vocabulary.h"
#include "text/tokenizer.h"

namespace kvik::text {

// Decodes one sequence. One thread; the core must outlive it.
class DecodeRun {
 public:
  virtual ~DecodeRun() = default;
  // An id without a piece adds nothing.
  virtual void push(TokenId id) = 0;
  virtual void finish() = 0;
};

// The interface of all kinds of tokenizers. Immutable: any thread may call.
class TokenizerCore {
 public:
  virtual ~TokenizerCore() = default;
  // `text` is valid UTF-8.
  virtual void encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const = 0;
  // Appends text to `out`, which must outlive the run, as soon as it is certain.
  virtual std::unique_ptr<DecodeRun> start_decoding(bool skip_special, std::string& out) const = 0;
  // The same without special tokens and with the bytes of characters that are not complete: what each token adds, as soon as it comes.
  virtual std::unique_ptr<DecodeRun> start_decoding_bytes(std::string& out) const = 0;
  virtual TokenId find(std::string_view piece) const = 0;
  virtual std::string_view piece(TokenId id) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  virtual TokenId end_id() const = 0;
};

// The token of a language, in any of the common forms; kNoToken if there is none.
TokenId find_language(const TokenizerCore& core, std::string_view language);

}  // namespace kvik::text
