#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/token.h"
#include "text/tokenizer.h"

namespace kvik::text {

class DecodeRun;

// Decodes tokens as they arrive: complete characters only, with correct spaces. All pieces and the flush, concatenated, equal decode()
// of all ids. One thread; steady state allocates nothing per token.
class DetokenizerStream {
 public:
  explicit DetokenizerStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true);
  DetokenizerStream(DetokenizerStream&&) noexcept;
  DetokenizerStream& operator=(DetokenizerStream&&) noexcept;
  ~DetokenizerStream();

  // The text that became certain with this token; often empty. Valid until the next call. An id without a piece adds nothing.
  std::string_view push(TokenId id);
  // The rest of the text, after the last token. Then the stream can be reused.
  std::string_view flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::unique_ptr<std::string> text_;  // the run writes to it; its address stays the same if the stream moves
  std::unique_ptr<DecodeRun> run_;
};

}  // namespace kvik::text
