#include "api/speculation_setup.h"

#include <algorithm>
#include <fmt/format.h>

#include "engine/draft.h"
#include "engine/forced_text.h"
#include "engine/lookup.h"

namespace kvik::api {
namespace {

// Words, code, numbers, spaces and characters of several bytes: tokenizers that agree on them are the same, or nearly so.
constexpr std::string_view kProbes[] = {"Once upon a time, there was a little girl.",
                                        "  for (int i = 0; i < 1234567; ++i) {\n\treturn x;\n}\n", "Grüße — 你好, мир! 🙂",
                                        "don't   can't\r\n\r\nWE'LL see 3.14159%"};

bool asks_for_speculation(const GenerateOptions& options) { return options.speculate != Speculate::kOff || options.draft != nullptr; }

// Embedding tables are often padded to a round size: models of one family have the same tokens and different numbers of rows.
bool have_same_tokens(const Model::State& model, const Model::State& draft) {
  if (model.tokenizer == nullptr || draft.tokenizer == nullptr) return false;
  const int n_common = std::min(model.traits().vocab, draft.traits().vocab);
  for (TokenId id = 0; id < n_common; ++id) {
    if (model.tokenizer->piece_of(id) != draft.tokenizer->piece_of(id)) return false;
  }
  return true;
}

void check_draft(const Model::State& model, const Model::State& draft) {
  const auto fail = [&](const std::string& why) {
    throw Error(Code::kBadArgument, fmt::format("the draft model {} {}; one with the same vocabulary and without an encoder was expected",
                                                draft.signature.folder.string(), why));
  };
  if (draft.traits().needs_source) fail("needs a source to start from");
  if (draft.traits().vocab != model.traits().vocab && !have_same_tokens(model, draft))
    fail(fmt::format("has {} tokens and the model {}, and their tokenizers differ", draft.traits().vocab, model.traits().vocab));
  if (!draft.traits().can_rewind) fail("keeps a recurrent state, which cannot be rewound");
  if (model.tokenizer == nullptr || draft.tokenizer == nullptr || model.tokenizer == draft.tokenizer) return;
  for (const std::string_view text : kProbes) {
    if (model.tokenizer->encode(text, {}) != draft.tokenizer->encode(text, {}))
      fail(fmt::format("has a different tokenizer: its ids for '{}' differ", text.substr(0, text.find('\n'))));
  }
}

}  // namespace

void check_speculation(const Model::State& model, const GenerateOptions& options, const TargetSetup& setup) {
  check_enum(options.speculate, Speculate::kLookup, "speculate");
  if (!asks_for_speculation(options)) return;
  if (setup.searches_beams())
    throw Error(Code::kBadArgument,
                "speculation (--speculate, --draft) and beams exclude each other: a beam search does not choose token by token");
  if (!options.use_cache)
    throw Error(Code::kBadArgument,
                "speculation (--speculate, --draft) and use_cache = false (--no-cache) exclude each other: proposals need the cache");
  if (options.draft != nullptr) check_draft(model, *options.draft->state());
}

bool uses_draft(const Model::State& model, const GenerateOptions& options) {
  return options.draft != nullptr && model.traits().exact && model.traits().can_rewind;
}

std::unique_ptr<engine::Speculation> make_speculation(const Model::State& model, const GenerateOptions& options, const TargetSetup& setup,
                                                      int capacity) {
  const bool asked = asks_for_speculation(options), forced = setup.options.constraint != nullptr && options.use_cache;
  if (!asked && !forced) return nullptr;
  if (!model.traits().exact || !model.traits().can_rewind) {
    if (!asked) return nullptr;
    Log(model.options.log)
        .warning(fmt::format("speculation is off: {}",
                             model.traits().exact ? "this model keeps a recurrent state, which cannot be rewound"
                                                  : fmt::format("on the {} backend it could change the result", model.traits().name)));
    return nullptr;
  }
  const size_t max_length = longest_sequence(setup, capacity);
  std::vector<std::unique_ptr<engine::Proposer>> proposers;
  if (forced) {
    const auto encode = [tokenizer = model.tokenizer](std::string_view text) { return tokenizer->encode(text, {.add_special = false}); };
    proposers.push_back(std::make_unique<engine::ForcedTextProposer>(setup.options.constraint, encode));
  }
  if (options.speculate == Speculate::kLookup) {
    const bool other_sessions = model.options.reuse_prefixes;
    proposers.push_back(std::make_unique<engine::LookupProposer>(other_sessions ? model.decoder->shared_backend() : nullptr, max_length));
  }
  if (options.draft != nullptr) {
    const Model::State& draft = *options.draft->state();
    proposers.push_back(
        std::make_unique<engine::DraftProposer>(draft.decoder, draft.options.context, model.traits().vocab, draft.options.reuse_prefixes));
  }
  return std::make_unique<engine::Speculation>(std::move(proposers), engine::SpeculationOptions{.max_length = max_length});
}

}  // namespace kvik::api
