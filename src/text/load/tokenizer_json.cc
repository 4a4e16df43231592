#include "text/load/tokenizer_json.h"

#include <fmt/format.h>

namespace kvik::text {
namespace {

std::vector<TokenId> ids_of(const json::Object& special_tokens, std::string_view name) {
  const auto token = json::find(special_tokens, name);
  if (!token) throw Error(Code::kBadModel, fmt::format("the post-processor uses the special token '{}', which is not defined", name));
  std::vector<TokenId> ids;
  for (const json::Element& id : json::array(json::object_of(*token, name), "ids")) {
    ids.push_back(static_cast<TokenId>(json::integer_of(id, "ids")));
  }
  return ids;
}

std::vector<TemplatePlace> places_of(const json::Array& pieces, const json::Object& special_tokens) {
  std::vector<TemplatePlace> places;
  for (const json::Element& element : pieces) {
    const json::Object piece = json::object_of(element, "template");
    if (const auto sequence = json::find(piece, "Sequence")) {
      const bool first = json::text(json::object_of(*sequence, "Sequence"), "id") == "A";
      places.push_back({first ? 0 : 1, {}});
      continue;
    }
    const auto special = json::find(piece, "SpecialToken");
    if (!special) json::refuse("template", "an array of Sequence and SpecialToken");
    places.push_back({TemplatePlace::kSpecial, ids_of(special_tokens, json::text(json::object_of(*special, "SpecialToken"), "id"))});
  }
  return places;
}

// ["</s>", 2]
TokenId id_of_pair(const json::Object& object, std::string_view key) {
  const json::Array pair = json::array(object, key);
  if (pair.size() != 2) json::refuse(key, "a token and its id");
  return static_cast<TokenId>(json::integer_of(pair.at(1), key));
}

void read_post_processor_at(const json::Object& object, Parts& parts, int depth) {
  if (depth > kMaxNestedSequences) throw Error(Code::kBadModel, "a post-processor nests too many sequences");
  const std::string_view type = json::text_or(object, "type", json::find(object, "cls") ? "BertProcessing" : "ByteLevel");
  if (type == "Sequence") {
    for (const json::Element& step : json::array(object, "processors")) {
      read_post_processor_at(json::object_of(step, "processors"), parts, depth + 1);
    }
  } else if (type == "TemplateProcessing") {
    const auto special = json::find(object, "special_tokens");
    if (!special) json::refuse("special_tokens", "an object");
    const json::Object special_tokens = json::object_of(*special, "special_tokens");
    parts.post_processors.push_back(
        make_template(places_of(json::array(object, "single"), special_tokens), places_of(json::array(object, "pair"), special_tokens)));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    parts.post_processors.push_back(make_enclosing(id_of_pair(object, "cls"), id_of_pair(object, "sep")));
  } else if (type != "ByteLevel") {  // which only changes offsets
    throw Error(Code::kUnsupported, fmt::format("unknown post-processor '{}'", type));
  }
}

}  // namespace

void read_post_processor(const json::Object& object, Parts& parts) { read_post_processor_at(object, parts, 0); }

AddedToken read_added_token(const json::Object& object) {
  AddedToken token;
  token.content = std::string(json::text(object, "content"));
  token.special = json::flag_or(object, "special", false);
  token.single_word = json::flag_or(object, "single_word", false);
  token.lstrip = json::flag_or(object, "lstrip", false);
  token.rstrip = json::flag_or(object, "rstrip", false);
  token.normalized = json::flag_or(object, "normalized", !token.special);
  return token;
}

Parts read_parts(const json::Object& root) {
  Parts parts;
  const auto part = [&](std::string_view key, auto&& read) {
    if (const auto value = json::find(root, key)) read(json::object_of(*value, key), parts);
  };
  const auto model = json::find(root, "model");
  if (!model) json::refuse("model", "an object");
  parts.model = read_model(json::object_of(*model, "model"));
  part("normalizer", read_normalizer);
  part("pre_tokenizer", read_pre_tokenizer);
  part("post_processor", read_post_processor);
  part("decoder", read_decoder);
  std::vector<AddedToken> added;
  if (const auto tokens = json::find(root, "added_tokens")) {
    for (const json::Element& token : json::array_of(*tokens, "added_tokens")) {
      added.push_back(read_added_token(json::object_of(token, "added_tokens")));
    }
  }
  parts.added.add(added, *parts.model);
  return parts;
}

}  // namespace kvik::text
