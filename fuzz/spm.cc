// Any bytes as a SentencePiece model: pieces that cover a text, or an Error.
#include <cstdint>
#include <memory>
#include <string_view>

#include "kvik/error.h"
#include "text/spm_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 16) return 0;
  try {
    kvik::text::SpmParts parts;
    parts.source = std::make_unique<const kvik::text::SpmModel>(std::string_view(reinterpret_cast<const char*>(data), size));
    const kvik::text::SpmTokenizer tokenizer(std::move(parts));
    std::vector<kvik::TokenId> ids;
    tokenizer.encode("The sea's  12 shells <s>\u00e9\u4e2d \U0001F44D\n\uFF11\u00A0", {}, ids);
    std::string text;
    const auto run = tokenizer.start_decoding(false, text);
    for (const kvik::TokenId id : ids) run->push(id);
    for (kvik::TokenId id = 0; id < std::min(tokenizer.end_id(), 300); ++id) run->push(id);
    run->finish();
  } catch (const kvik::Error&) {  // a correct result
  }
  return 0;
}
