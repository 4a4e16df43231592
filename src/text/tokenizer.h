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

// Which side of a translation model a text is on. Other models have one side.
enum class Side { kSource, kTarget };

struct EncodeOptions {
  bool add_special = true;  // add special tokens around the text; special tokens in the text are always recognized
  Side side = Side::kSource;
  std::string_view language = {};  // as in the config ("fra_Latn", "fr"); empty: the default of the side
};

// Ids of special tokens, if the config files have them.
struct SpecialIds {
  std::optional<TokenId> bos, eos, unknown, separator, pad, classifier, mask;
};

// A tokenizer, with exactly the ids and text of the reference implementation. Immutable: any thread may call.
class Tokenizer {
 public:
  // From a folder (or the parent of a folder "onnx") with tokenizer.json, or SentencePiece models (with vocab.json), or vocab.txt, or
  // vocab.json and merges.txt. Throws Error if there is none of these or they are invalid.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
  // Whether the folder has files that load() can read.
  static bool is_in(const std::filesystem::path& folder);
  // From the text of a tokenizer.json; `origin` is its name in messages.
  static std::shared_ptr<const Tokenizer> from_json(std::string_view json, std::string_view origin);

  explicit Tokenizer(std::unique_ptr<const TokenizerCore> core, SpecialIds special = {});
  ~Tokenizer();

  // Invalid UTF-8 is replaced with U+FFFD.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Throws Error(kBadArgument) for an id out of range.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  // Nothing if there is no such piece or added token.
  std::optional<TokenId> id_of(std::string_view piece) const;
  // Empty if there is none. Valid as long as the tokenizer.
  std::string_view piece_of(TokenId id) const;
  // Whether decode(skip_special) drops it.
  bool is_special(TokenId id) const;
  // One more than the largest id. The model's vocabulary may be larger.
  TokenId end_id() const;
  const SpecialIds& special() const { return special_; }
  // The token of a language, in any form: fra_Latn, __fr__, >>fra<<, <2fr>, <|fr|>.
  std::optional<TokenId> language_id(std::string_view language) const;

  const TokenizerCore& core() const { return *core_; }

 private:
  std::unique_ptr<const TokenizerCore> core_;
  SpecialIds special_;
};

}  // namespace kvik::text
