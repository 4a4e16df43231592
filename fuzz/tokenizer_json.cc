// Any bytes as a tokenizer.json: a working tokenizer, or an Error.
#include <cstdint>

#include "kvik/error.h"
#include "text/stream.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 16) return 0;
  try {
    const auto tokenizer = kvik::text::Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
    const std::vector<kvik::TokenId> ids = tokenizer->encode("The sea's  12 shells <s>\u00e9\u4e2d \U0001F44D\n");
    for (const kvik::TokenId id : ids) (void)tokenizer->piece_of(id);
    kvik::text::DetokenizerStream stream(tokenizer, false);
    for (const kvik::TokenId id : ids) (void)stream.push(id);
    (void)stream.flush();
    if (tokenizer->end_id() > 0) (void)tokenizer->decode(std::vector<kvik::TokenId>{0, tokenizer->end_id() - 1, 0});
  } catch (const kvik::Error&) {  // a correct result
  }
  return 0;
}
