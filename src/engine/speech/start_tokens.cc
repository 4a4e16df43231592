#include "engine/speech/start_tokens.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvik/error.h"

namespace kvik::engine {
namespace {

using NamedTokens = std::vector<std::pair<std::string, TokenId>>;

std::string bare(std::string name) {
  if (name.starts_with("<|") && name.ends_with("|>")) name = name.substr(2, name.size() - 4);
  return name;
}

std::string names_of(const NamedTokens& tokens) {
  std::vector<std::string> names;
  for (const auto& [name, id] : tokens) names.push_back(bare(name));
  return fmt::format("{}", fmt::join(names, ", "));
}

TokenId named(const NamedTokens& tokens, const std::string& wanted, const char* what) {
  for (const auto& [name, id] : tokens) {
    if (name == wanted || bare(name) == bare(wanted)) return id;
  }
  if (tokens.empty())
    throw Error(
        Code::kBadArgument,
        fmt::format(
            "the {} '{}' was requested, but this model has only one: neither its generation_config.json nor its tokenizer lists any", what,
            wanted));
  throw Error(Code::kBadArgument, fmt::format("the {} '{}' is unknown; this model has: {}", what, wanted, names_of(tokens)));
}

bool holds_any(const std::vector<std::optional<TokenId>>& start, const NamedTokens& tokens) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const auto& entry) { return std::find(start.begin(), start.end(), std::optional(entry.second)) != start.end(); });
}

// The tokens that are forced at places 1, 2, … one after another; nothing if a place is left open.
void add_forced(const GenerationConfig& config, std::vector<std::optional<TokenId>>& start) {
  for (const auto& [place, token] : config.forced_decoder_ids) {
    if (place != static_cast<int>(start.size()))
      throw Error(Code::kBadModel,
                  fmt::format("forced_decoder_ids has an entry for position {}; one for position {} was expected", place, start.size()));
    start.push_back(token);
  }
}

std::vector<TokenId> given(const std::vector<std::optional<TokenId>>& start) {
  std::vector<TokenId> tokens;
  for (const std::optional<TokenId>& token : start) {
    if (token) tokens.push_back(*token);
  }
  return tokens;
}

// What the decoder begins with before a language is chosen.
struct Beginning {
  std::optional<std::string> language, task;
  std::vector<std::optional<TokenId>> start;
  bool is_whole = false;  // nothing is added

  bool lacks_language() const { return !is_whole && !language && (start.size() < 2 || !start[1]); }
};

Beginning beginning_of(const GenerationConfig& config, const SpeechRequest& request) {
  if (!config.decoder_start) throw Error(Code::kBadModel, "the config files do not set the decoder's start token (decoder_start_token_id)");
  Beginning begun{request.language ? request.language : config.language, request.task ? request.task : config.task, {}};
  begun.start = {*config.decoder_start};
  const bool as_forced = !begun.language && !begun.task;
  if (as_forced) add_forced(config, begun.start);
  begun.is_whole = as_forced && !request.timestamps && config.speech_tokens_only_if_asked;
  return begun;
}

}  // namespace

std::vector<TokenId> languages_to_detect(const GenerationConfig& config, const SpeechRequest& request) {
  std::vector<TokenId> candidates;
  if (!beginning_of(config, request).lacks_language()) return candidates;
  for (const auto& [name, id] : config.languages) candidates.push_back(id);
  return candidates;
}

std::vector<TokenId> speech_start(const GenerationConfig& config, const SpeechRequest& request, std::optional<TokenId> detected) {
  auto [language, task, start, is_whole] = beginning_of(config, request);
  if (is_whole) return given(start);
  const std::optional<TokenId> spoken = language ? named(config.languages, *language, "language") : detected;
  if (spoken && start.size() > 1) start[1] = spoken;
  if (spoken && start.size() == 1) start.push_back(spoken);

  if (task) {
    start.push_back(named(config.tasks, *task, "task"));
  } else if (language && !config.tasks.empty() && !holds_any(start, config.tasks)) {
    start.push_back(named(config.tasks, "transcribe", "task"));
  }
  if (request.timestamps) std::erase(start, config.no_timestamps);
  if (config.no_timestamps && !request.timestamps && start.back() != config.no_timestamps) start.push_back(config.no_timestamps);
  return given(start);
}

bool has_timestamps(const GenerationConfig& config) { return config.no_timestamps && !config.eos.empty(); }

sample::TimestampRules timestamp_rules(const GenerationConfig& config) {
  if (!has_timestamps(config))
    throw Error(Code::kBadArgument,
                "timestamps were requested, but this model has no timestamp tokens (no_timestamps_token_id in its config files)");
  return {.first = *config.no_timestamps + 1, .end = config.eos.front(), .max_initial_index = config.max_initial_timestamp_index};
}

std::string language_of(const GenerationConfig& config, std::span<const TokenId> start) {
  for (const auto& [name, id] : config.languages) {
    if (std::find(start.begin(), start.end(), id) != start.end()) return bare(name);
  }
  return "";
}

std::span<const sample::Continuation> LanguageStrategy::advance(std::span<const Sequence> branches, Workers& /*workers*/) {
  const std::span<const float> row = branches.front().known_logits();
  for (const TokenId id : candidates_) {
    if (id < 0 || static_cast<size_t>(id) >= row.size())
      throw Error(Code::kBadModel, fmt::format("lang_to_id names token {}; the vocabulary has {}", id, row.size()));
    if (!chosen_ || row[static_cast<size_t>(id)] > row[static_cast<size_t>(*chosen_)]) chosen_ = id;
  }
  return {};
}

}  // namespace kvik::engine
