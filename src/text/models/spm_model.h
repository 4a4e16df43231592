#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/models/model.h"
#include "text/models/trie.h"
#include "text/unicode/charsmap.h"

namespace kvik::text {

// A SentencePiece model: pieces, normalization and segmentation. Immutable: any thread may call.
class SpmModel final : public Model {
 public:
  enum class Kind { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  enum class Algorithm { kUnigram = 1, kBpe = 2, kWord = 3, kCharacter = 4 };

  // Reads the protobuf. Errors do not name the file.
  explicit SpmModel(std::string_view bytes);

  // Receives pieces one by one, with the ids of the model; a run of unknown characters is one piece.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void take(std::string_view piece, TokenId id) = 0;
  };
  // Normalizes and segments a text, which is valid UTF-8.
  void cut(std::string_view text, Scratch& scratch, Sink& sink) const;
  void encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const override;
  size_t size() const override { return pieces_.size(); }

  // The id of a piece, or that of the unknown piece.
  TokenId id_of(std::string_view piece) const;
  std::string_view piece(TokenId id) const { return vocabulary_.piece(id); }
  Kind kind(TokenId id) const { return pieces_[static_cast<size_t>(id)].kind; }
  TokenId unknown() const { return unknown_; }
  const std::string& unknown_surface() const { return unknown_surface_; }
  // Whether decoding drops the space of the first piece, or of all pieces before the first text.
  bool drops_first_space() const { return add_dummy_prefix_ || remove_extra_spaces_; }
  bool drops_all_first_spaces() const { return remove_extra_spaces_; }
  TokenId bos() const { return bos_; }
  TokenId eos() const { return eos_; }

 private:
  struct PieceData {
    float score = 0;
    Kind kind = Kind::kNormal;
  };
  struct Cut {
    std::string_view piece;
    TokenId id;
  };

  void read(std::string_view bytes);
  void read_piece(std::string_view bytes);
  void read_trainer(std::string_view bytes);
  void read_normalizer(std::string_view bytes);
  void index();

  void normalize(std::string_view text, std::string& out) const;
  // The replacement of a prefix of the text, and the size of the prefix.
  Charsmap::Match normalized_prefix(std::string_view text) const;
  // Bytes of the user-defined symbol that the text begins with, 0 for none.
  size_t user_defined_prefix(std::string_view text) const;

  std::vector<Cut> cut_unigram(std::string_view text, Scratch& scratch) const;
  std::vector<Cut> cut_bpe(std::string_view text, Scratch& scratch) const;
  std::vector<Cut> cut_words(std::string_view text) const;
  std::vector<Cut> cut_characters(std::string_view text) const;
  using MergedAt = std::unordered_map<std::string_view, size_t>;  // an unused piece, and the size of its left part
  void undo_unused(std::string_view piece, const MergedAt& merged_at, std::vector<Cut>& out) const;

  std::vector<PieceData> pieces_;
  Trie trie_;  // normal, user-defined and unused pieces
  Trie user_defined_;
  Charsmap charsmap_;
  Algorithm algorithm_ = Algorithm::kUnigram;
  bool byte_fallback_ = false;
  bool space_is_suffix_ = false;
  bool add_dummy_prefix_ = true;
  bool remove_extra_spaces_ = true;
  bool escape_spaces_ = true;
  std::string unknown_surface_ = " \xE2\x81\x87 ";
  std::string bos_piece_ = "<s>", eos_piece_ = "</s>";
  TokenId unknown_ = kNoToken, bos_ = kNoToken, eos_ = kNoToken;
  float lowest_ = 0, highest_ = 0;
};

}  // namespace kvik::text
