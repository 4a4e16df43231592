#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/token.h"
#include "text/tokenizer.h"

namespace kvik::text {

class DecodeRun;

// Text as its tokens arrive: whole characters only, right spaces. All pieces with the flush, joined, are the decode of all ids.
// Belongs to one thread; allocates nothing per token in the long run.
class DetokenizerStream {
 public:
  explicit DetokenizerStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true);
  DetokenizerStream(DetokenizerStream&&) noexcept;
  DetokenizerStream& operator=(DetokenizerStream&&) noexcept;
  ~DetokenizerStream();

  // What became certain with this token; often empty. Holds until the next call. An id without a piece adds nothing.
  std::string_view push(TokenId id);
  // What is left when no token follows. Then the stream can begin anew.
  std::string_view flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::unique_ptr<std::string> text_;  // the run writes into it, wherever the stream moves
  std::unique_ptr<DecodeRun> run_;
};

}  // namespace kvik::text
