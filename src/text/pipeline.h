#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/models/model.h"
#include "text/models/scratch.h"
#include "text/steps/added_tokens.h"
#include "text/steps/decoder.h"
#include "text/steps/normalizer.h"
#include "text/steps/postprocessor.h"
#include "text/steps/pretokenizer.h"
#include "text/tokenizer_core.h"

namespace kvik::text {

// The parts of a tokenizer, as listed in its files.
struct Parts {
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  bool ends_in_bytes = false;  // the last pre-tokenizer outputs the byte alphabet
  bool needs_start = false;    // a pre-tokenizer depends on whether a piece begins the text
  std::unique_ptr<Model> model;
  AddedTokens added;
  PostProcessors post_processors;
  Decoders decoders;
  std::string source_language;  // the default that the post-processor inserts
};

// Encodes with added tokens, normalizers, pre-tokenizers, model and post-processors; decodes with decoders.
class Pipeline final : public TokenizerCore {
 public:
  explicit Pipeline(Parts parts);

  void encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const override;
  std::unique_ptr<DecodeRun> start_decoding(bool skip_special, std::string& out) const override;
  std::unique_ptr<DecodeRun> start_decoding_bytes(std::string& out) const override;
  TokenId find(std::string_view piece) const override;
  std::string_view piece(TokenId id) const override;
  bool is_special(TokenId id) const override { return special_ids_.contains(id); }
  TokenId end_id() const override;

 private:
  void encode_stretch(std::string_view text, bool first, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_normalized(const Piece& text, Scratch& scratch, std::vector<TokenId>& out) const;
  void start_limit(size_t n_input_bytes, Scratch& scratch) const;
  void normalize(Stretch& stretch, Scratch& scratch) const;
  void add_special(std::vector<TokenId>& ids, const EncodeOptions& options) const;

  Parts parts_;
  std::unordered_set<TokenId> special_ids_;
  TokenId source_language_ = kNoToken;
  mutable ScratchPool scratch_;
};

}  // namespace kvik::text
