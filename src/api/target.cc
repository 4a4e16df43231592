#include "api/target.h"

#include <algorithm>
#include <fmt/format.h>
#include <random>

namespace kvik::api {
namespace {

static_assert(static_cast<int>(EarlyStopping::kFalse) == static_cast<int>(sample::EarlyStopping::kNo));
static_assert(static_cast<int>(EarlyStopping::kTrue) == static_cast<int>(sample::EarlyStopping::kYes));
static_assert(static_cast<int>(EarlyStopping::kNever) == static_cast<int>(sample::EarlyStopping::kNever));

sample::SamplingOptions sampling_of(const ModelAccess::State& state, const TranslateOptions& options) {
  sample::SamplingOptions sampling = state.sampling(options.sampling());
  set_where_given(sampling.min_length, options.min_length);
  set_where_given(sampling.min_new_tokens, options.min_new_tokens);
  set_where_given(sampling.encoder_no_repeat_ngram_size, options.encoder_no_repeat_ngram_size);
  set_where_given(sampling.encoder_repetition_penalty, options.encoder_repetition_penalty);
  set_where_given(sampling.suppress_tokens, options.suppress_tokens);
  if (options.suppress_tokens) state.ban_unreadable(sampling);
  set_where_given(sampling.begin_suppress_tokens, options.begin_suppress_tokens);
  set_where_given(sampling.bad_words_ids, options.bad_words_ids);
  if (const std::optional<TokenId> forced = options.forced_bos_token_id) sampling.forced_bos_token_id = *forced < 0 ? std::nullopt : forced;
  if (const std::optional<TokenId> forced = options.forced_eos_token_id)
    sampling.forced_eos_token_id = *forced < 0 ? std::vector<TokenId>() : std::vector<TokenId>{*forced};
  if (options.ignore_eos) sampling.eos_token_id.clear();
  sampling.eos_token_id.insert(sampling.eos_token_id.end(), options.stop_ids.begin(), options.stop_ids.end());
  return sampling;
}

// Sampling draws one token after another; beams rank whole sequences. Whoever asks for one does not get the other.
int beams_of(const ModelAccess::State& state, const TranslateOptions& options, const sample::SamplingOptions& sampling) {
  const bool asked_to_sample = options.temperature && *options.temperature > 0;
  const int beams = options.beams.value_or(state.config.beams);
  if (beams == 1 || sampling.greedy()) return beams;
  if (asked_to_sample && options.beams)
    throw Error(Code::kBadArgument, fmt::format("{} beams and a temperature exclude each other: beams are searched, not drawn", beams));
  if (asked_to_sample) return 1;
  if (!options.beams)
    Log(state.options.log).warning("generation_config.json asks for beams and for sampling; beams are searched, nothing is drawn");
  return beams;
}

int max_new_tokens_of(const ModelAccess::State& state, const TranslateOptions& options) {
  const engine::GenerationConfig& config = state.config;
  const int n_start = static_cast<int>(1 + config.forced_decoder_ids.size());
  int most = options.max_tokens      ? *options.max_tokens
             : config.max_new_tokens ? *config.max_new_tokens
             : config.max_length     ? std::max(1, *config.max_length - n_start)
                                     : kDefaultNewTokens;
  if (const int limit = state.backend->traits().max_positions; limit > 1) most = std::min(most, limit - 1);
  if (most < 1) throw Error(Code::kBadArgument, "no new tokens were asked for; at least 1 was expected");
  return most;
}

}  // namespace

int beams_of(const ModelAccess::State& state, const TranslateOptions& options) {
  return beams_of(state, options, sampling_of(state, options));
}

Target make_target(const ModelAccess::State& state, const TranslateOptions& options) {
  const engine::GenerationConfig& config = state.config;
  Target target;
  target.sampling = sampling_of(state, options);
  target.max_new_tokens = max_new_tokens_of(state, options);
  target.stop = options.stop;
  std::erase(target.stop, std::string());

  engine::SearchOptions& search = target.translate.search;
  const std::optional<TokenId> start = options.decoder_start_token_id ? options.decoder_start_token_id : config.decoder_start;
  if (start) search.start = {*start};
  const int beams = beams_of(state, options, target.sampling);
  search.beams = {
      .num_beams = beams,
      .num_return_sequences = options.num_return_sequences.value_or(beams > 1 ? std::min(beams, config.num_return_sequences) : 1),
      .length_penalty = options.length_penalty.value_or(config.length_penalty),
      .early_stopping = options.early_stopping ? static_cast<sample::EarlyStopping>(*options.early_stopping) : config.early_stopping,
      .max_length = search.start.size() + static_cast<size_t>(target.max_new_tokens),
      .eos_token_id = target.sampling.eos_token_id};
  if (!target.stop.empty() && state.tokenizer != nullptr) {
    search.ends = [&state, stops = target.stop](std::span<const TokenId> ids) {
      const std::string text = state.detokenize(ids);
      return std::ranges::any_of(stops, [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
    };
  }
  target.translate.seed = options.seed ? *options.seed : std::random_device()();
  target.translate.cancelled = options.cancelled;
  return target;
}

Hypothesis describe(const ModelAccess::State& state, const Target& target, const sample::Hypothesis& found, const Skips& skips) {
  Hypothesis described{found.ids, "", found.score, Finish::kLength};
  bool cut = false;
  if (state.tokenizer != nullptr) {
    std::vector<TokenId> spoken = found.ids;
    if (skips) std::erase_if(spoken, skips);
    described.text = state.detokenize(spoken);
    const size_t whole = described.text.size();
    for (const std::string& stop : target.stop) described.text.resize(std::min(described.text.size(), described.text.find(stop)));
    cut = described.text.size() < whole;
  }
  const std::vector<TokenId>& ends = target.sampling.eos_token_id;
  const bool ended = !found.ids.empty() && std::ranges::find(ends, found.ids.back()) != ends.end();
  if (ended || cut) described.finish = Finish::kStop;
  return described;
}

}  // namespace kvik::api
