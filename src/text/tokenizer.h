#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace kvik::text {

class TokenizerCore;

// Which language of a translation model a text is in. Others have one side.
enum class Side { kSource, kTarget };

struct EncodeOptions {
  bool add_special = true;  // what the model expects around a text; special tokens written in the text always count
  Side side = Side::kSource;
  std::string_view language = {};  // as the config writes it ("fra_Latn", "fr"); empty for the default of the side
};

// Ids the config files name; absent where they name none.
struct SpecialIds {
  std::optional<TokenId> bos, eos, unknown, separator, pad, classifier, mask;
};

// A tokenizer as its files describe it: exactly the ids and the text that the reference gives. Immutable: any thread may call.
class Tokenizer {
 public:
  // From a folder (or, of a folder "onnx", the one around it) with tokenizer.json, or SentencePiece models (with vocab.json), or vocab.txt,
  // or vocab.json and merges.txt. Throws Error with one sentence where there is none of these or they contradict themselves.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
  // Whether load() would find something to read there.
  static bool is_in(const std::filesystem::path& folder);
  // From the text of a tokenizer.json alone; `origin` is named in sentences.
  static std::shared_ptr<const Tokenizer> from_json(std::string_view json, std::string_view origin);

  explicit Tokenizer(std::unique_ptr<const TokenizerCore> core, SpecialIds special = {});
  ~Tokenizer();

  // Bytes that are not UTF-8 count as U+FFFD.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Throws Error(kBadArgument) for an id that the tokenizer cannot have.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  // Absent where no piece or added token is written so.
  std::optional<TokenId> id_of(std::string_view piece) const;
  // Empty where there is none. Lives as long as the tokenizer.
  std::string_view piece_of(TokenId id) const;
  // decode(skip_special) leaves it out.
  bool is_special(TokenId id) const;
  // One more than the largest id. The model's vocabulary may be larger.
  TokenId end_id() const;
  const SpecialIds& special() const { return special_; }
  // The token of a language, however it is spelled: fra_Latn, __fr__, >>fra<<, <2fr>, <|fr|>.
  std::optional<TokenId> language_id(std::string_view language) const;

  const TokenizerCore& core() const { return *core_; }

 private:
  std::unique_ptr<const TokenizerCore> core_;
  SpecialIds special_;
};

}  // namespace kvik::text
