#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "text/load/tokenizer_json.h"
#include "text/models/bpe.h"
#include "text/models/unigram.h"
#include "text/models/wordpiece.h"

namespace kvik::text {
namespace {

Vocabulary vocabulary_of(const json::Object& model) {
  const auto value = json::find(model, "vocab");
  if (!value) json::refuse("vocab", "an object of pieces and their ids");
  const json::Object pieces = json::object_of(*value, "vocab");
  std::vector<std::pair<std::string_view, int64_t>> list;
  list.reserve(pieces.size());
  for (const auto& [piece, id] : pieces) list.emplace_back(piece, json::integer_of(id, piece));
  Vocabulary vocabulary;
  vocabulary.add_all(list);
  return vocabulary;
}

// "a b", or ["a", "b"]
std::pair<std::string_view, std::string_view> merge_of(const json::Element& value, size_t rank) {
  std::string_view line;
  if (value.get_string().get(line) == simdjson::SUCCESS) {
    const size_t space = line.find(' ');
    if (space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos) {
      return {line.substr(0, space), line.substr(space + 1)};
    }
  } else if (json::Array pair; value.get_array().get(pair) == simdjson::SUCCESS && pair.size() == 2) {
    return {json::text_of(pair.at(0), "merges"), json::text_of(pair.at(1), "merges")};
  }
  throw Error(Code::kBadModel, fmt::format("merge {} is not two pieces separated by a space", rank));
}

std::unique_ptr<Model> read_bpe(const json::Object& model) {
  double dropout = 0;
  if (const auto value = json::find(model, "dropout"); value && value->get_double().get(dropout) != simdjson::SUCCESS) {
    json::refuse("dropout", "a number");
  }
  if (dropout != 0) {
    throw Error(Code::kUnsupported,
                fmt::format("the model drops merges at random (dropout {}); set dropout to null for inference", dropout));
  }
  BpeOptions options;
  if (const auto unknown = json::find(model, "unk_token")) options.unknown = std::string(json::text_of(*unknown, "unk_token"));
  options.continuing_prefix = std::string(json::text_or(model, "continuing_subword_prefix", ""));
  options.end_of_word = std::string(json::text_or(model, "end_of_word_suffix", ""));
  options.fuse_unknown = json::flag_or(model, "fuse_unk", false);
  options.byte_fallback = json::flag_or(model, "byte_fallback", false);
  options.ignore_merges = json::flag_or(model, "ignore_merges", false);
  const json::Array lines = json::array(model, "merges");
  Bpe::Merges merges;
  merges.reserve(lines.size());
  for (const json::Element& line : lines) {
    std::string_view text;
    if (line.get_string().get(text) == simdjson::SUCCESS && text.substr(0, 8) == "#version") continue;
    merges.push_back(merge_of(line, merges.size()));
  }
  return std::make_unique<Bpe>(vocabulary_of(model), merges, std::move(options));
}

// The reference parses the digits as one integer and divides once, which can be off by one bit for more than 15 digits. That bit decides
// ties between tokenizations, so scores are parsed the same way here. Files have the shortest digits of a number, so the digits can be
// restored from the number.
double as_reference_parses(double exact) {
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::abs(exact), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  bool after_point = false;
  const char* p = text.data();
  for (; p < end && *p != 'e'; ++p) {
    if (*p == '.') {
      after_point = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*p - '0');
    exponent -= after_point ? 1 : 0;
  }
  int written = 0;
  if (p < end) std::from_chars(p + (p[1] == '+' ? 2 : 1), end, written);
  exponent += written;
  constexpr uint64_t kExact = uint64_t{1} << 53;
  static constexpr std::array<double, 23> kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (digits <= kExact || exponent > 0 || exponent < -22) return exact;
  return std::copysign(static_cast<double>(digits) / kPowers[static_cast<size_t>(-exponent)], exact);
}

std::unique_ptr<Model> read_unigram(const json::Object& model) {
  const json::Array list = json::array(model, "vocab");
  Unigram::Pieces pieces;
  pieces.reserve(list.size());
  for (const json::Element& element : list) {
    const json::Array pair = json::array_of(element, "vocab");
    double score;
    if (pair.size() != 2 || pair.at(1).get_double().get(score) != simdjson::SUCCESS) json::refuse("vocab", "an array of pieces and scores");
    pieces.emplace_back(json::text_of(pair.at(0), "vocab"), as_reference_parses(score));
  }
  std::optional<int64_t> unknown;
  if (const auto id = json::find(model, "unk_id")) unknown = json::integer_of(*id, "unk_id");
  return std::make_unique<Unigram>(pieces, unknown, json::flag_or(model, "byte_fallback", false));
}

std::unique_ptr<Model> read_wordpiece(const json::Object& model) {
  WordPieceOptions options;
  options.unknown = std::string(json::text_or(model, "unk_token", "[UNK]"));
  options.continuing_prefix = std::string(json::text_or(model, "continuing_subword_prefix", "##"));
  options.max_characters = static_cast<size_t>(std::max<int64_t>(0, json::integer_or(model, "max_input_chars_per_word", 100)));
  return std::make_unique<WordPiece>(vocabulary_of(model), std::move(options));
}

// Old files without a type are recognized by their fields.
std::string_view type_of(const json::Object& model) {
  if (const auto type = json::find(model, "type")) return json::text_of(*type, "type");
  if (json::find(model, "merges")) return "BPE";
  if (const auto vocab = json::find(model, "vocab"); vocab && vocab->is_array()) return "Unigram";
  return json::find(model, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

std::unique_ptr<Model> read_model(const json::Object& model) {
  const std::string_view type = type_of(model);
  if (type == "BPE") return read_bpe(model);
  if (type == "Unigram") return read_unigram(model);
  if (type == "WordPiece") return read_wordpiece(model);
  if (type == "WordLevel") {
    return std::make_unique<WordLevel>(vocabulary_of(model), std::string(json::text_or(model, "unk_token", "<unk>")));
  }
  throw Error(Code::kUnsupported, fmt::format("unknown tokenizer model '{}'; expected BPE, Unigram, WordPiece or WordLevel", type));
}

}  // namespace kvik::text
