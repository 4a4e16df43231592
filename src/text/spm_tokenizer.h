#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/models/scratch.h"
#include "text/models/spm_model.h"
#include "text/steps/added_tokens.h"
#include "text/tokenizer_core.h"

namespace kvik::text {

struct SpmParts {
  std::unique_ptr<const SpmModel> source;
  std::unique_ptr<const SpmModel> target;                  // null if one model is used for both sides
  std::unique_ptr<Vocabulary> source_ids;                  // pieces to ids, if they do not come from the model
  std::unique_ptr<Vocabulary> target_ids;                  // null if both sides share one
  std::vector<AddedToken> added;                           // special tokens and others, matched before the model
  std::vector<std::pair<std::string, int64_t>> added_ids;  // of tokens that are not in the vocabulary
  std::string unknown;                                     // the token for pieces without an id
  TokenId prefix = kNoToken, suffix = kNoToken;            // special tokens around a text
  std::string source_language;                             // its token comes first if no other language is given
  bool language_codes = false;                             // >>xx<< at the start of a text is a token
};

// A SentencePiece model with its own ids, or with separate ids and a model for each side of a translation.
class SpmTokenizer final : public TokenizerCore {
 public:
  explicit SpmTokenizer(SpmParts parts);

  void encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const override;
  std::unique_ptr<DecodeRun> start_decoding(bool skip_special, std::string& out) const override;
  std::unique_ptr<DecodeRun> start_decoding_bytes(std::string& out) const override;
  TokenId find(std::string_view piece) const override;
  std::string_view piece(TokenId id) const override;
  bool is_special(TokenId id) const override;
  TokenId end_id() const override;

 private:
  void add_source_language(std::vector<TokenId>& out) const;
  void encode_stretch(std::string_view text, Side side, std::vector<TokenId>& out) const;
  const SpmModel& model(Side side) const { return side == Side::kTarget && parts_.target ? *parts_.target : *parts_.source; }
  const Vocabulary& ids(Side side) const;

  SpmParts parts_;
  std::unique_ptr<Model> vocabulary_;  // for looking up added tokens
  AddedTokens added_;
  TokenId unknown_ = kNoToken;
  TokenId source_language_ = kNoToken;
  mutable ScratchPool scratch_;
};

}  // namespace kvik::text
