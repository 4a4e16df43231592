#include "kvik/text.h"

#include "api/environment.h"
#include "text/chat_template.h"
#include "text/stream.h"
#include "text/template/json.h"
#include "text/tokenizer.h"

namespace kvik {
namespace {

std::filesystem::path folder_of(const std::string& path_or_name) {
  return path_or_name.empty() ? std::filesystem::path() : api::find_model(path_or_name, api::read_environment()).folder;
}

}  // namespace

Tokenizer Tokenizer::load(const std::string& path_or_name) { return Tokenizer(text::Tokenizer::load(folder_of(path_or_name))); }

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  text::EncodeOptions encode;
  encode.add_special = options.add_special;
  encode.side = options.target ? text::Side::kTarget : text::Side::kSource;
  encode.language = options.language;
  return tokenizer_->encode(text, encode);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const { return tokenizer_->decode(ids, skip_special); }
TokenId Tokenizer::end_id() const { return tokenizer_->end_id(); }

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : stream_(std::make_unique<text::DetokenizerStream>(tokenizer.tokenizer_, skip_special)) {}
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

std::string_view Detokenizer::push(TokenId id) { return stream_->push(id); }
std::string_view Detokenizer::flush() { return stream_->flush(); }

ChatTemplate::ChatTemplate(text::ChatTemplate&& chat_template)
    : template_(std::make_shared<const text::ChatTemplate>(std::move(chat_template))) {}

ChatTemplate ChatTemplate::load(const std::string& path_or_name) { return ChatTemplate(text::ChatTemplate::load(folder_of(path_or_name))); }

ChatTemplate ChatTemplate::from_file(const std::filesystem::path& file, const std::string& path_or_name) {
  return ChatTemplate(text::ChatTemplate::from_file(file, folder_of(path_or_name)));
}

bool ChatTemplate::empty() const { return template_->empty(); }
std::string ChatTemplate::fault() const { return template_->fault(); }
std::string ChatTemplate::render(std::string_view request_json) const { return template_->render_json(request_json); }

std::string quote_json(std::string_view text) {
  std::string quoted;
  text::jinja::append_json_text(quoted, text, true);
  return quoted;
}

}  // namespace kvik
