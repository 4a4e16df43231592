#include "text/spm_tokenizer.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/utf8.h"
#include "kvik/error.h"
#include "text/steps/decoder.h"

namespace kvik::text {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

// Only its vocabulary is used.
class VocabularyModel final : public Model {
 public:
  explicit VocabularyModel(const Vocabulary& vocabulary, const std::vector<std::pair<std::string, int64_t>>& more) {
    vocabulary_ = vocabulary;
    for (const auto& [piece, id] : more) {
      if (vocabulary_.find(piece) == kNoToken) vocabulary_.add(piece, id);
    }
  }
  void encode(std::string_view, Scratch&, std::vector<TokenId>&) const override {}
  size_t size() const override { return static_cast<size_t>(vocabulary_.end_id()); }
};

// The size of a language code such as >>fr<< at the start of `text`.
size_t code_bytes(std::string_view text) {
  if (text.substr(0, 2) != ">>") return 0;
  const size_t close = text.find("<<");
  return close == std::string_view::npos ? 0 : close + 2;
}

// Decodes pieces to text; a run of byte pieces gives characters as they are completed.
class SpmPieces {
 public:
  // `raw`: bytes are passed on as they come.
  SpmPieces(const SpmModel& model, DecodeStep& next, bool raw) : model_(model), next_(next), raw_(raw) {}

  void push(std::string_view piece) {
    const TokenId id = model_.id_of(piece);
    if (model_.kind(id) == SpmModel::Kind::kByte) {
      push_byte(piece);
      return;
    }
    end_bytes();
    if (first_space_seen_ || any_text_) at_start_ = false;
    first_space_seen_ = false;
    switch (model_.kind(id)) {
      case SpmModel::Kind::kControl: return;
      case SpmModel::Kind::kUnknown: emit(model_.piece(id) == piece ? std::string_view(model_.unknown_surface()) : piece); return;
      default: break;
    }
    if (at_start_ && model_.drops_first_space() && piece.substr(0, kSpaceSymbol.size()) == kSpaceSymbol) {
      piece.remove_prefix(kSpaceSymbol.size());
      first_space_seen_ = !model_.drops_all_first_spaces();
    }
    buffer_.clear();
    for (size_t at = 0; at < piece.size();) {
      const size_t space = std::min(piece.find(kSpaceSymbol, at), piece.size());
      buffer_.append(piece.substr(at, space - at));
      if (space < piece.size()) buffer_ += ' ';
      at = space + kSpaceSymbol.size();
    }
    emit(buffer_);
  }

  void end_run() {
    end_bytes();
    at_start_ = true;
    first_space_seen_ = false;
    any_text_ = false;
  }

 private:
  void emit(std::string_view text) {
    any_text_ = any_text_ || !text.empty();
    if (!text.empty()) next_.push(text);
  }

  void push_byte(std::string_view piece) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; };
    bytes_ += static_cast<char>(digit(piece[3]) * 16 + digit(piece[4]));
    if (raw_) {
      emit(bytes_);
      bytes_.clear();
    } else {
      emit_bytes(false);
    }
  }
  void end_bytes() { emit_bytes(true); }
  void emit_bytes(bool last) {
    size_t done = 0;
    while (done < bytes_.size()) {
      const utf8::Step step = utf8::step(std::string_view(bytes_).substr(done));
      if (step.incomplete && !last) break;
      const size_t size = step.valid ? step.size : 1;
      emit(step.valid ? std::string_view(bytes_).substr(done, size) : utf8::kReplacement);
      done += size;
    }
    bytes_.erase(0, done);
  }

  const SpmModel& model_;
  DecodeStep& next_;
  bool raw_;
  bool at_start_ = true;
  bool first_space_seen_ = false;
  bool any_text_ = false;
  std::string bytes_;
  std::string buffer_;
};

class SpmRun final : public DecodeRun {
 public:
  struct Rules {
    const SpmModel& model;
    bool skip_special;
    bool raw;    // bytes as they come, even of characters that are not complete
    bool trims;  // with a separate vocabulary: spaces around special tokens, none at the ends
    std::string_view unknown;
  };
  SpmRun(const SpmTokenizer& tokenizer, const Rules& rules, std::string& out)
      : tokenizer_(tokenizer),
        rules_(rules),
        sink_(out),
        trim_(trim().start(sink_)),
        spaces_(spaces().start(*trim_)),
        pieces_(rules.model, rules.trims ? *spaces_ : static_cast<DecodeStep&>(sink_), rules.raw) {}

  void push(TokenId id) override {
    const bool special = tokenizer_.is_special(id);
    if (special && rules_.skip_special) return;
    std::string_view piece = tokenizer_.piece(id);
    if (piece.empty() && rules_.trims) piece = rules_.unknown;
    if (piece.empty()) return;
    if (!special && !(rules_.trims && piece == rules_.unknown)) {
      pieces_.push(piece);
      return;
    }
    DecodeStep& next = rules_.trims ? *spaces_ : static_cast<DecodeStep&>(sink_);
    pieces_.end_run();
    next.push(piece);
    if (rules_.trims) next.push(" ");
  }
  void finish() override {
    pieces_.end_run();
    spaces_->finish();
  }

 private:
  static const Decoder& trim() {
    static const std::unique_ptr<const Decoder> decoder = make_trim_decoder();
    return *decoder;
  }
  static const Decoder& spaces() {
    static const std::unique_ptr<const Decoder> decoder = make_replace_decoder(std::string(kSpaceSymbol), " ");
    return *decoder;
  }

  const SpmTokenizer& tokenizer_;
  Rules rules_;
  TextSink sink_;
  std::unique_ptr<DecodeStep> trim_;
  std::unique_ptr<DecodeStep> spaces_;
  SpmPieces pieces_;
};

class PieceIds final : public SpmModel::Sink {
 public:
  PieceIds(const Vocabulary& ids, TokenId unknown, std::vector<TokenId>& out) : ids_(ids), unknown_(unknown), out_(out) {}
  void take(std::string_view piece, TokenId) override {
    const TokenId id = ids_.find(piece);
    out_.push_back(id == kNoToken ? unknown_ : id);
  }

 private:
  const Vocabulary& ids_;
  TokenId unknown_;
  std::vector<TokenId>& out_;
};

}  // namespace

SpmTokenizer::SpmTokenizer(SpmParts parts) : parts_(std::move(parts)) {
  const Vocabulary& base = parts_.source_ids ? *parts_.source_ids : parts_.source->vocabulary();
  vocabulary_ = std::make_unique<VocabularyModel>(base, parts_.added_ids);
  added_.add(parts_.added, *vocabulary_);
  added_.prepare([](std::string_view content) { return std::string(content); });
  unknown_ = parts_.source_ids ? parts_.source_ids->find(parts_.unknown) : parts_.source->unknown();
  if (unknown_ == kNoToken) throw Error(Code::kBadModel, fmt::format("the unknown token '{}' is not in the vocabulary", parts_.unknown));
  source_language_ = find_language(*this, parts_.source_language);
  const bool is_piece = source_language_ != kNoToken && piece(source_language_) == parts_.source_language && !is_special(source_language_);
  if (is_piece) source_language_ = kNoToken;  // 'en' is also a part of words
}

const Vocabulary& SpmTokenizer::ids(Side side) const {
  return side == Side::kTarget && parts_.target_ids ? *parts_.target_ids : *parts_.source_ids;
}

void SpmTokenizer::encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const {
  if (options.add_special && parts_.prefix != kNoToken) out.push_back(parts_.prefix);
  if (options.language.empty()) {
    if (options.add_special && options.side == Side::kSource) add_source_language(out);
  } else {
    const TokenId language = find_language(*this, options.language);
    if (language == kNoToken) {
      throw Error(Code::kBadArgument, fmt::format("the tokenizer has no token for language '{}'", options.language));
    }
    out.push_back(language);
  }
  added_.find_raw(text, [&](TokenId id, size_t begin, size_t end) {
    if (id != kNoToken) {
      out.push_back(id);
    } else {
      encode_stretch(text.substr(begin, end - begin), options.side, out);
    }
  });
  if (options.add_special && parts_.suffix != kNoToken) out.push_back(parts_.suffix);
}

void SpmTokenizer::add_source_language(std::vector<TokenId>& out) const {
  if (parts_.source_language.empty()) return;
  if (source_language_ == kNoToken)
    throw Error(Code::kUnsupported,
                fmt::format("the source language is '{}', and no file of the tokenizer has the id of its token; list the languages in "
                            "added_tokens.json: {{\"__{}__\": id, …}}",
                            parts_.source_language, parts_.source_language));
  out.push_back(source_language_);
}

void SpmTokenizer::encode_stretch(std::string_view text, Side side, std::vector<TokenId>& out) const {
  const ScratchPool::Lease scratch = scratch_.borrow();
  if (!parts_.source_ids) {
    model(side).encode(text, *scratch, out);
    return;
  }
  PieceIds sink(ids(side), unknown_, out);
  const size_t n_code = parts_.language_codes ? code_bytes(text) : 0;
  if (n_code > 0) sink.take(text.substr(0, n_code), kNoToken);
  model(side).cut(text.substr(n_code), *scratch, sink);
}

std::unique_ptr<DecodeRun> SpmTokenizer::start_decoding(bool skip_special, std::string& out) const {
  const SpmRun::Rules rules = {model(Side::kTarget), skip_special, false, parts_.source_ids != nullptr, parts_.unknown};
  return std::make_unique<SpmRun>(*this, rules, out);
}

std::unique_ptr<DecodeRun> SpmTokenizer::start_decoding_bytes(std::string& out) const {
  const SpmRun::Rules rules = {model(Side::kTarget), true, true, parts_.source_ids != nullptr, parts_.unknown};
  return std::make_unique<SpmRun>(*this, rules, out);
}

TokenId SpmTokenizer::find(std::string_view piece) const { return added_.find(piece); }

std::string_view SpmTokenizer::piece(TokenId id) const {
  if (const AddedToken* token = added_.token(id)) return token->content;
  if (parts_.target_ids) return parts_.target_ids->piece(id);
  return vocabulary_->vocabulary().piece(id);
}

bool SpmTokenizer::is_special(TokenId id) const {
  const AddedToken* token = added_.token(id);
  return token != nullptr && token->special;
}

TokenId SpmTokenizer::end_id() const {
  const TokenId end = std::max(added_.end_id(), vocabulary_->vocabulary().end_id());
  return parts_.target_ids ? std::max(end, parts_.target_ids->end_id()) : end;
}

}  // namespace kvik::text
