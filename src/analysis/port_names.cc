#include "analysis/port_names.h"

#include <algorithm>
#include <cctype>

namespace kvik::analysis {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// "past_key_values" names the whole cache, not keys or values.
void strip_key_values(std::vector<std::string>& words) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "key" && words[i + 1] == "values") {
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i), "cache");
    }
  }
}

bool any_of(const std::vector<std::string>& words, std::initializer_list<std::string_view> list) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& w) { return std::find(list.begin(), list.end(), w) != list.end(); });
}

// "hidden" and "state" alone are common names of encoder outputs; they name a state only together with "past" and similar words.
std::string flavor_of(const std::vector<std::string>& words) {
  const bool carried = any_of(words, {"past", "present", "prev", "previous", "new", "updated", "cache", "initial", "init", "next"});
  for (const std::string& word : words) {
    for (const std::string_view known : {"conv", "ssm", "recurrent", "rnn", "shift", "mems", "mem", "compressor", "indexer"}) {
      if (word == known) return word;
    }
  }
  if (!carried || any_of(words, {"encoder"})) return "";
  for (const std::string& word : words) {
    if (word == "hidden" || word == "cell" || word == "state" || word == "states") return word == "states" ? "state" : word;
  }
  return "";
}

}  // namespace

bool NameParts::has(std::string_view word) const { return std::find(words.begin(), words.end(), word) != words.end(); }
bool NameParts::has_any(std::initializer_list<std::string_view> list) const { return any_of(words, list); }

NameParts name_parts(std::string_view name) {
  constexpr size_t kMostDigits = 6;  // longer numbers are not layer numbers
  NameParts parts;
  for (size_t i = 0; i < name.size();) {
    size_t end = i + 1;
    if (is_digit(name[i])) {
      while (end < name.size() && is_digit(name[end])) ++end;
      if (end - i <= kMostDigits) parts.numbers.push_back(std::stoi(std::string(name.substr(i, end - i))));
    } else if (is_lower(name[i]) || is_upper(name[i])) {
      while (end < name.size() && (is_lower(name[end]) || (is_upper(name[end]) && is_upper(name[end - 1])))) ++end;
      std::string word(name.substr(i, end - i));
      for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      parts.words.push_back(std::move(word));
    }
    i = end;
  }
  return parts;
}

StateName state_name(std::string_view name) {
  NameParts parts = name_parts(name);
  strip_key_values(parts.words);
  const std::vector<std::string>& words = parts.words;
  StateName result;
  if (!parts.numbers.empty()) result.layer = parts.numbers.front();
  result.cross = any_of(words, {"cross", "encoder", "enc", "crossattn"});
  const bool key = any_of(words, {"key", "keys", "k"});
  const bool value = any_of(words, {"value", "values", "v"});
  result.flavor = flavor_of(words);
  if (!result.flavor.empty()) {
    result.kind = NameKind::kRecurrent;
    if (key || value) result.flavor += key ? ".key" : ".value";
    if (any_of(words, {"gate", "query"})) result.flavor += any_of(words, {"gate"}) ? ".gate" : ".query";
  } else if (key || value || any_of(words, {"kv"})) {
    result.kind = key == value ? NameKind::kKeyValue : key ? NameKind::kKey : NameKind::kValue;
  } else if (parts.numbers.size() >= 2 && any_of(words, {"past", "present", "cache"})) {
    // Flattened tuples: layer, then key, value, cross key, cross value.
    const int j = parts.numbers[1];
    result.kind = j % 2 == 0 ? NameKind::kKey : NameKind::kValue;
    result.cross |= j >= 2;
  } else if (any_of(words, {"past", "present"})) {
    result.kind = NameKind::kKeyValue;
  }
  result.looks_like_state =
      result.kind != NameKind::kNothing &&
      (any_of(words, {"past", "present", "cache", "kv", "mems", "prev", "updated", "new"}) || !result.flavor.empty()) &&
      !any_of(words, {"ids", "mask", "length", "lengths", "len", "logits", "position", "positions", "embeds"});
  return result;
}

NameHint name_hint(std::string_view name) {
  const NameParts p = name_parts(name);
  const bool of_encoder = p.has_any({"encoder", "enc", "cross"});
  if (p.has_any({"use", "using"}) && p.has_any({"cache", "past"})) return NameHint::kUseCache;
  if (p.has("logits") && p.has_any({"keep", "num"})) return NameHint::kLogitsToKeep;
  if (p.has("embeds") || p.has("embeddings")) return NameHint::kEmbeds;
  if (p.has("mask")) return of_encoder ? NameHint::kEncoderMask : NameHint::kMask;
  if (p.has("cache") && p.has_any({"position", "positions", "pos"})) return NameHint::kCachePosition;
  if (p.has("write")) return NameHint::kWriteIndices;
  if (p.has_any({"length", "lengths", "len", "lens", "seqlen", "seqlens"}) || (p.has("seq") && p.has("lens"))) return NameHint::kLength;
  if (p.has_any({"position", "positions", "pos"})) return NameHint::kPositions;
  if (p.has("type") || p.has("segment") || p.has("segments")) return NameHint::kSegments;
  if (p.has("hidden") || (of_encoder && p.has_any({"outputs", "output", "states"}))) return NameHint::kEncoderHidden;
  if (p.has_any({"pixel", "pixels", "image", "images", "patches"})) return NameHint::kPixels;
  if (p.has_any({"audio", "mel", "features", "waveform", "speech"}) || (p.has("input") && p.has("values"))) return NameHint::kAudio;
  if (p.has_any({"ids", "tokens", "token"}) || name == "input") return NameHint::kTokens;
  return NameHint::kNothing;
}

}  // namespace kvik::analysis
