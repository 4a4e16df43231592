#include <fmt/format.h>

#include "text/load/tokenizer_json.h"

namespace kvik::text {
namespace {

std::string in_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    int digit;
    if (c >= 'A' && c <= 'Z') {
      digit = c - 'A';
    } else if (c >= 'a' && c <= 'z') {
      digit = c - 'a' + 26;
    } else if (c >= '0' && c <= '9') {
      digit = c - '0' + 52;
    } else if (c == '+' || c == '/') {
      digit = c == '+' ? 62 : 63;
    } else if (c == '=') {
      break;
    } else {
      throw Error(Code::kBadModel, "'precompiled_charsmap' is not base64");
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>(bits >> n_bits & 0xFF);
  }
  return bytes;
}

// {"String": "…"} or {"Regex": "…"}
struct Pattern {
  std::string_view text;
  bool is_regex;
};

Pattern pattern_of(const json::Object& object) {
  const auto value = json::find(object, "pattern");
  if (!value) json::refuse("pattern", "{\"String\": …} or {\"Regex\": …}");
  const json::Object pattern = json::object_of(*value, "pattern");
  if (const auto regex = json::find(pattern, "Regex")) return {json::text_of(*regex, "Regex"), true};
  return {json::text(pattern, "String"), false};
}

Regex regex_of(const Pattern& pattern) { return pattern.is_regex ? Regex(pattern.text) : Regex::literal(pattern.text); }

SplitBehavior behavior_of(std::string_view name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw Error(
      Code::kBadModel,
      fmt::format("unknown split behavior '{}'; expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", name));
}

[[noreturn]] void refuse_type(std::string_view what, std::string_view type) {
  throw Error(Code::kUnsupported, fmt::format("unknown {} '{}'", what, type));
}

template <class Read>
void read_sequence(const json::Array& steps, std::string_view what, int depth, const Read& read) {
  if (depth > kMaxNestedSequences)
    throw Error(Code::kBadModel, fmt::format("a {} nests more than {} sequences", what, kMaxNestedSequences));
  for (const json::Element& step : steps) read(json::object_of(step, what), depth + 1);
}

void read_normalizer_at(const json::Object& object, Parts& parts, int depth) {
  const std::string_view type = json::text(object, "type");
  Normalizers& out = parts.normalizers;
  if (type == "Sequence") {
    read_sequence(json::array(object, "normalizers"), "normalizer", depth,
                  [&](const json::Object& step, int next) { read_normalizer_at(step, parts, next); });
  } else if (type == "NFC") {
    out.push_back(make_form(unicode::Form::kNfc));
  } else if (type == "NFD") {
    out.push_back(make_form(unicode::Form::kNfd));
  } else if (type == "NFKC") {
    out.push_back(make_form(unicode::Form::kNfkc));
  } else if (type == "NFKD") {
    out.push_back(make_form(unicode::Form::kNfkd));
  } else if (type == "Lowercase") {
    out.push_back(make_lowercase());
  } else if (type == "Strip") {
    out.push_back(make_strip(json::flag_or(object, "strip_left", true), json::flag_or(object, "strip_right", true)));
  } else if (type == "StripAccents") {
    out.push_back(make_strip_accents());
  } else if (type == "Nmt") {
    out.push_back(make_nmt());
  } else if (type == "Prepend") {
    out.push_back(make_prepend(std::string(json::text(object, "prepend"))));
  } else if (type == "Precompiled") {
    out.push_back(make_charsmap(Charsmap(in_base64(json::text_or(object, "precompiled_charsmap", "")))));
  } else if (type == "Replace") {
    const Pattern pattern = pattern_of(object);
    std::string content(json::text(object, "content"));
    out.push_back(pattern.is_regex ? make_replace_pattern(Regex(pattern.text), std::move(content))
                                   : make_replace_text(pattern.text, std::move(content)));
  } else if (type == "ByteLevel") {
    out.push_back(make_byte_level_normalizer());
  } else if (type == "BertNormalizer") {
    CleanOptions options;
    options.clean_text = json::flag_or(object, "clean_text", true);
    options.space_chinese = json::flag_or(object, "handle_chinese_chars", true);
    options.lowercase = json::flag_or(object, "lowercase", true);
    options.strip_accents = json::flag_or(object, "strip_accents", options.lowercase);
    out.push_back(make_clean(options));
  } else {
    refuse_type("normalizer", type);
  }
}

struct MetaspaceFields {
  std::string replacement;
  PrependScheme scheme;
};

// Old files have add_prefix_space, new ones prepend_scheme.
MetaspaceFields metaspace_of(const json::Object& object) {
  MetaspaceFields fields;
  utf8::append(fields.replacement, json::character(object, "replacement"));
  const bool prefix = json::flag_or(object, "add_prefix_space", true);
  const std::string_view scheme = json::text_or(object, "prepend_scheme", prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") json::refuse("prepend_scheme", "first, never or always");
  if (!prefix && scheme != "never") {
    throw Error(Code::kBadModel, fmt::format("'add_prefix_space' is false, but 'prepend_scheme' is {}", scheme));
  }
  fields.scheme = scheme == "always" ? PrependScheme::kAlways : scheme == "first" ? PrependScheme::kFirst : PrependScheme::kNever;
  return fields;
}

void read_byte_level(const json::Object& object, Parts& parts) {
  if (json::flag_or(object, "add_prefix_space", true)) parts.pre_tokenizers.push_back(make_prefix_space());
  if (json::flag_or(object, "use_regex", true)) parts.pre_tokenizers.push_back(make_byte_level_split());
  parts.pre_tokenizers.push_back(make_byte_level_characters());
  parts.ends_in_bytes = true;
}

std::unique_ptr<const PreTokenizer> simple_pre_tokenizer(const json::Object& object, std::string_view type) {
  if (type == "BertPreTokenizer") return make_white_space_and_punctuation();
  if (type == "Whitespace") return make_white_space_words();
  if (type == "WhitespaceSplit") return make_white_space_split();
  if (type == "UnicodeScripts") return make_unicode_scripts();
  if (type == "Digits") return make_digits(json::flag_or(object, "individual_digits", false));
  if (type == "Punctuation") return make_punctuation(behavior_of(json::text_or(object, "behavior", "Isolated")));
  if (type == "CharDelimiterSplit") return make_delimiter(json::character(object, "delimiter"));
  if (type == "Split") {
    return make_split(regex_of(pattern_of(object)), behavior_of(json::text(object, "behavior")), json::flag_or(object, "invert", false));
  }
  if (type == "FixedLength") {
    const int64_t length = json::integer_or(object, "length", 5);
    if (length < 1) json::refuse("length", "a positive number");
    return make_fixed_length(static_cast<size_t>(length));
  }
  refuse_type("pre-tokenizer", type);
}

void read_pre_tokenizer_at(const json::Object& object, Parts& parts, int depth) {
  const std::string_view type = json::text(object, "type");
  if (type == "Sequence") {
    read_sequence(json::array(object, "pretokenizers"), "pre-tokenizer", depth,
                  [&](const json::Object& step, int next) { read_pre_tokenizer_at(step, parts, next); });
    return;
  }
  if (type == "ByteLevel") {
    read_byte_level(object, parts);
    return;
  }
  parts.ends_in_bytes = false;
  if (type == "Metaspace") {
    MetaspaceFields fields = metaspace_of(object);
    parts.needs_start = parts.needs_start || fields.scheme == PrependScheme::kFirst;
    parts.pre_tokenizers.push_back(make_metaspace(std::move(fields.replacement), fields.scheme, json::flag_or(object, "split", true)));
    return;
  }
  parts.pre_tokenizers.push_back(simple_pre_tokenizer(object, type));
}

void read_decoder_at(const json::Object& object, Parts& parts, int depth) {
  const std::string_view type = json::text(object, "type");
  Decoders& out = parts.decoders;
  const auto count = [&](std::string_view key) { return static_cast<size_t>(std::max<int64_t>(0, json::integer_or(object, key, 0))); };
  if (type == "Sequence") {
    read_sequence(json::array(object, "decoders"), "decoder", depth,
                  [&](const json::Object& step, int next) { read_decoder_at(step, parts, next); });
  } else if (type == "ByteLevel") {
    out.push_back(make_byte_level_decoder());
  } else if (type == "ByteFallback") {
    out.push_back(make_byte_fallback_decoder());
  } else if (type == "Fuse") {
    out.push_back(make_fuse_decoder());
  } else if (type == "Strip") {
    out.push_back(make_strip_decoder(json::character(object, "content"), count("start"), count("stop")));
  } else if (type == "Metaspace") {
    const MetaspaceFields fields = metaspace_of(object);
    out.push_back(make_metaspace_decoder(fields.replacement, fields.scheme != PrependScheme::kNever));
  } else if (type == "WordPiece") {
    out.push_back(make_wordpiece_decoder(std::string(json::text_or(object, "prefix", "##")), json::flag_or(object, "cleanup", true)));
  } else if (type == "CTC") {
    out.push_back(make_ctc_decoder(std::string(json::text_or(object, "pad_token", "<pad>")),
                                   std::string(json::text_or(object, "word_delimiter_token", "|")),
                                   json::flag_or(object, "cleanup", true)));
  } else if (type == "BPEDecoder") {
    out.push_back(make_suffix_decoder(std::string(json::text_or(object, "suffix", "</w>"))));
  } else if (type == "Replace") {
    const Pattern pattern = pattern_of(object);
    std::string content(json::text(object, "content"));
    out.push_back(pattern.is_regex ? make_replace_pattern_decoder(Regex(pattern.text), std::move(content))
                                   : make_replace_decoder(std::string(pattern.text), std::move(content)));
  } else {
    refuse_type("decoder", type);
  }
}

}  // namespace

void read_normalizer(const json::Object& object, Parts& parts) { read_normalizer_at(object, parts, 0); }
void read_pre_tokenizer(const json::Object& object, Parts& parts) { read_pre_tokenizer_at(object, parts, 0); }
void read_decoder(const json::Object& object, Parts& parts) {
  read_decoder_at(object, parts, 0);
  if (parts.decoders.empty()) parts.decoders.push_back(make_fuse_decoder());  // an empty Sequence still joins
}

}  // namespace kvik::text
