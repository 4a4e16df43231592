// Any bytes as text for fixed tokenizers: encoded text decodes, and streaming gives the same text.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kvik/error.h"
#include "text/stop.h"
#include "text/stream.h"
#include "text/tokenizer.h"
#include "text/unicode/byte_alphabet.h"

namespace {

using kvik::TokenId;
using kvik::text::Tokenizer;
using Shared = std::shared_ptr<const Tokenizer>;

std::string quoted(std::string_view piece) {
  std::string out = "\"";
  for (const char c : piece) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

Shared byte_level() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab += quoted(kvik::text::ByteAlphabet::instance().character(static_cast<uint8_t>(byte))) + ":" + std::to_string(byte) + ",";
  }
  return Tokenizer::from_json(
      R"({"added_tokens":[{"id":259,"content":"<s>","special":true,"normalized":false,"lstrip":true,"rstrip":true}],
          "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true},"decoder":{"type":"ByteLevel"},
          "model":{"type":"BPE","vocab":{)" +
          vocab + R"("ee":256,"he":257,"hee":258},"merges":["e e","h e","h ee"]}})",
      "byte-level");
}

Shared unigram() {
  return Tokenizer::from_json(
      R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"StripAccents"}]},
          "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"},{"type":"Punctuation","behavior":"MergedWithPrevious"},
            {"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}]},
          "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
            {"type":"Strip","content":" ","start":1,"stop":1}]},
          "model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-2],["e",-3],["ee",-4.5],["▁a",-1],["<0xE2>",-9]]}})",
      "unigram");
}

Shared wordpiece() {
  return Tokenizer::from_json(
      R"({"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
          "pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
          "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":50,
            "vocab":{"[UNK]":0,"a":1,"##a":2,"e":3,"##e":4,"he":5,"##ee":6,".":7}}})",
      "wordpiece");
}

Shared split() {
  return Tokenizer::from_json(
      R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
            "behavior":"Isolated","invert":false},{"type":"Digits","individual_digits":true}]},
          "model":{"type":"BPE","unk_token":"u","fuse_unk":true,"byte_fallback":true,"vocab":{"u":0,"a":1,"b":2,"ab":3," ":4," a":5},"merges":["a b"]}})",
      "split");
}

void check(const Shared& tokenizer, std::string_view text) {
  const std::vector<TokenId> ids = tokenizer->encode(text);
  const std::string whole = tokenizer->decode(ids, false);
  kvik::text::DetokenizerStream stream(tokenizer, false);
  std::string joined;
  for (const TokenId id : ids) joined += stream.push(id);
  joined += stream.flush();
  if (joined != whole) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::array<Shared, 4> tokenizers = {byte_level(), unigram(), wordpiece(), split()};
  const std::string_view text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 1 << 14));
  for (const Shared& tokenizer : tokenizers) check(tokenizer, text);
  if (size > 2) {  // the first bytes as a stop string, the rest as text in two parts
    kvik::text::StopMatcher stop({std::string(text.substr(0, 2)), std::string(text.substr(1, 3))});
    (void)stop.push(text.substr(0, size / 2));
    (void)stop.push(text.substr(std::min(text.size(), size / 2)));
    (void)stop.flush();
  }
  return 0;
}
