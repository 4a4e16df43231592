#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/error.h"
#include "kvik/types.h"

// Tokenizers and chat templates without a model: a folder with tokenizer files is enough. `kvik tokenize` and `kvik render` use this.
namespace kvik {

namespace text {
class Tokenizer;
class DetokenizerStream;
class ChatTemplate;
}  // namespace text

struct EncodeOptions {
  bool add_special = true;  // add the tokens that the model expects around a text; special tokens in the text are always recognized
  bool target = false;      // translation models: encode as target text
  std::string language;     // as in the model's files ("fra_Latn", "fr"); empty: the default
};

// Any thread may call; cheap to copy.
class Tokenizer {
 public:
  // A folder with tokenizer files, a file in such a folder, or the name of a model on the search path. Throws Error.
  static Tokenizer load(const std::string& path_or_name);

  // Invalid UTF-8 is treated as U+FFFD.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Throws Error(kBadArgument) for an id that the tokenizer does not have.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;
  TokenId end_id() const;  // the largest id plus 1

 private:
  friend class Detokenizer;
  explicit Tokenizer(std::shared_ptr<const text::Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

// Decodes tokens one by one, as they are generated. The concatenation of all pieces and flush() equals decode() of all ids. Used by one
// thread at a time.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  // The text that this token completes: often empty, always whole characters. Valid until the next call.
  std::string_view push(TokenId id);
  std::string_view flush();  // the rest, at the end

 private:
  std::unique_ptr<text::DetokenizerStream> stream_;
};

// Any thread may call; cheap to copy.
class ChatTemplate {
 public:
  // From a folder or a model, as for Tokenizer::load(); empty if it has none.
  static ChatTemplate load(const std::string& path_or_name);
  // From a template file, with the special tokens of the model `path_or_name` if that is not empty.
  static ChatTemplate from_file(const std::filesystem::path& file, const std::string& path_or_name = {});

  bool empty() const;
  std::string fault() const;  // why the template cannot be used; empty: it can
  // `request`: {"messages": […], "tools": …, "add_generation_prompt": …, …}. Throws Error.
  std::string render(std::string_view request_json) const;

 private:
  explicit ChatTemplate(text::ChatTemplate&& chat_template);
  std::shared_ptr<const text::ChatTemplate> template_;
};

// The text as a JSON string literal in ASCII. Unpaired surrogates, which a template can produce, are preserved.
std::string quote_json(std::string_view text);

}  // namespace kvik
