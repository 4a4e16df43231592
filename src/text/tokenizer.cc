#include "text/tokenizer.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "kvik/error.h"
#include "text/tokenizer_core.h"

namespace kvik::text {

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerCore> core, SpecialIds special) : core_(std::move(core)), special_(special) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 8);
  if (utf8::is_valid(text)) {
    core_->encode(text, options, ids);
  } else {
    core_->encode(utf8::replaced(text), options, ids);
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  const std::unique_ptr<DecodeRun> run = core_->start_decoding(skip_special, text);
  for (const TokenId id : ids) {
    if (id < 0 || id >= core_->end_id()) {
      throw Error(Code::kBadArgument, fmt::format("token id {} is out of range; this tokenizer has ids 0 to {}", id, core_->end_id() - 1));
    }
    run->push(id);
  }
  run->finish();
  return text;
}

std::optional<TokenId> Tokenizer::id_of(std::string_view piece) const {
  const TokenId id = core_->find(piece);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::string_view Tokenizer::piece_of(TokenId id) const { return core_->piece(id); }
bool Tokenizer::is_special(TokenId id) const { return core_->is_special(id); }
TokenId Tokenizer::end_id() const { return core_->end_id(); }

std::optional<TokenId> Tokenizer::language_id(std::string_view language) const {
  const TokenId id = find_language(*core_, language);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

TokenId find_language(const TokenizerCore& core, std::string_view language) {
  if (language.empty()) return kNoToken;
  for (const char* form : {"{}", "__{}__", ">>{}<<", "<|{}|>", "<2{}>", "<{}>", "[{}]"}) {
    const TokenId id = core.find(fmt::format(fmt::runtime(form), language));
    if (id != kNoToken && (core.is_special(id) || form[0] != '{')) return id;
  }
  return core.find(language);
}

}  // namespace kvik::text
