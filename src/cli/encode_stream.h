#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/types.h"

namespace kvik::cli {

// Encodes a text of any length in parts, so that memory does not grow with it. The text is cut at white space where encoding both sides
// separately gives the same ids as encoding them together, so the ids are those of the whole text. (A SentencePiece unigram model adds the
// scores of a whole text in 32 bits; after a megabyte, rounding hides the difference between similar pieces, and the parts are more
// accurate.) A text without such a position is encoded as a whole.
class EncodeStream {
 public:
  enum class Part {
    kWhole,   // with the special tokens before and after a text
    kMiddle,  // the ids of the text alone
  };
  using Encode = std::function<std::vector<TokenId>(std::string_view text, Part part)>;
  using Take = std::function<void(std::span<const TokenId> ids)>;

  // `take` gets the ids in order.
  EncodeStream(Encode encode, Take take) : encode_(std::move(encode)), take_(std::move(take)) {}

  void push(std::string_view text);
  void finish();

 private:
  struct Cut {
    size_t end = 0;    // of the left side; 0: no cut is possible
    size_t begin = 0;  // of the right side
  };
  Cut find_cut() const;
  bool agrees(const Cut& cut) const;
  bool find_affixes(std::string_view text);

  Encode encode_;
  Take take_;
  std::string text_;
  size_t next_try_bytes_ = kPortionBytes;
  bool is_first_ = true;
  std::vector<TokenId> behind_;  // ids to add after the text

  static constexpr size_t kPortionBytes = size_t{1} << 20;
};

}  // namespace kvik::cli
