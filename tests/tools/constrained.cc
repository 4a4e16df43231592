// Generates texts under constraints from random logits, with the tokens of any tokenizer: what a model with random weights would do.
//
//   {"tokenizer": FOLDER, "schema" or "regex" or "grammar": TEXT, "seed": N, "max_tokens": N, "closing": X}   a line in
//   {"text": TEXT, "finish": "stop" or "length"} or {"error": SENTENCE}                                       a line out
//
// `closing` is added to the logits of tokens that begin with a quote or a closing bracket, so that texts end.
#include <fmt/format.h>
#include <iostream>
#include <map>
#include <random>

#include "api/constraint_state.h"
#include "base/json.h"
#include "sample/sampler.h"
#include "text/token_bytes.h"

namespace kvik {
namespace {

struct Loaded {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  api::ModelConstraints constraints;
  std::vector<TokenId> closing;
};

Loaded& load(const std::string& folder) {
  static std::map<std::string, std::unique_ptr<Loaded>> all;
  std::unique_ptr<Loaded>& loaded = all[folder];
  if (loaded != nullptr) return *loaded;
  loaded = std::make_unique<Loaded>();
  loaded->tokenizer = text::Tokenizer::load(folder);
  const text::TokenBytes bytes = text::token_bytes(*loaded->tokenizer);
  for (size_t id = 0; id < bytes.later.size(); ++id) {
    const size_t at = bytes.later[id].find_first_not_of(' ');
    if (at != std::string::npos && std::string_view("\"]}").find(bytes.later[id][at]) != std::string_view::npos)
      loaded->closing.push_back(static_cast<TokenId>(id));
  }
  return *loaded;
}

Constraint constraint_of(const Json& line) {
  if (line.contains("schema")) return Constraint::json_schema(line["schema"].get<std::string>());
  if (line.contains("regex")) return Constraint::regex(line["regex"].get<std::string>());
  return Constraint::grammar(line["grammar"].get<std::string>());
}

Json generate(const Json& line) {
  Loaded& loaded = load(line["tokenizer"].get<std::string>());
  const auto vocab = static_cast<size_t>(loaded.tokenizer->end_id()) + 1;
  const TokenId end = static_cast<TokenId>(vocab) - 1;  // a token of its own
  const sample::Sampler sampler({.temperature = 1.0}, {vocab, {end}, {}});
  constrain::Matcher matcher(loaded.constraints.bind(constraint_of(line), loaded.tokenizer.get(), vocab));
  sample::Rng rng(line["seed"].get<uint64_t>());
  std::mt19937 random(line["seed"].get<uint32_t>());
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 250;
  for (const TokenId id : loaded.closing) logits[static_cast<size_t>(id)] += line["closing"].get<float>();
  sample::Workspace workspace;
  std::vector<TokenId> ids;
  for (int i = 0; i < line["max_tokens"].get<int>(); ++i) {
    const constrain::Allowed allowed = matcher.allowed();
    const TokenId id = sampler.sample(logits, {ids, 0, 0, {}, &allowed}, rng, workspace);
    if (id == end) return {{"text", loaded.tokenizer->decode(ids)}, {"finish", "stop"}};
    if (!matcher.accept(id)) return {{"error", "a token was chosen that is not allowed"}};
    ids.push_back(id);
    if (matcher.must_end()) return {{"text", loaded.tokenizer->decode(ids)}, {"finish", "stop"}};
  }
  return {{"text", loaded.tokenizer->decode(ids)}, {"finish", "length"}};
}

}  // namespace
}  // namespace kvik

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    kvik::Json result;
    try {
      result = kvik::generate(kvik::Json::parse(line));
    } catch (const std::exception& e) { result = {{"error", e.what()}}; }
    std::cout << result.dump(-1, ' ', false, kvik::Json::error_handler_t::replace) << std::endl;
  }
}
