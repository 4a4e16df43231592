#include "api/target_setup.h"

#include <algorithm>
#include <fmt/format.h>
#include <random>

namespace kvik::api {
namespace {

constexpr int kDefaultNewTokens = 256;  // if neither the caller nor the model sets it

sample::TokenRules token_rules(const Model::State& state, const TargetRequest& request) {
  sample::TokenRules rules{static_cast<size_t>(state.traits().vocab), {}, state.traits().unsupported_tokens};
  if (!request.ignore_eos) rules.eos = state.config.eos;
  rules.timestamps = request.timestamps;
  rules.eos.insert(rules.eos.end(), request.stop_ids.begin(), request.stop_ids.end());
  return rules;
}

// Sampling draws one token after another, beams rank whole sequences: the two exclude each other.
int beams_of(const Model::State& state, const TargetRequest& request, const sample::Sampler& sampler) {
  const bool asked_to_sample = request.sampling.temperature.value_or(0) > 0;
  const int beams = request.beams.value_or(state.config.beams);
  if (beams == 1 || sampler.is_greedy()) return beams;
  if (asked_to_sample && request.beams)
    throw Error(Code::kBadArgument, fmt::format("{} beams and a temperature above 0 exclude each other; set one of them", beams));
  if (asked_to_sample) return 1;
  if (!request.beams) Log(state.options.log).warning("generation_config.json asks for beams and for sampling; searching with beams");
  return beams;
}

int max_new_tokens_of(const Model::State& state, const TargetRequest& request, int n_start) {
  if (request.max_tokens) {
    if (*request.max_tokens < 0)
      throw Error(Code::kBadArgument, fmt::format("max_tokens is {}; 0 or more was expected", *request.max_tokens));
    return *request.max_tokens;
  }
  const engine::GenerationConfig& config = state.config;
  if (config.max_new_tokens) return std::max(0, *config.max_new_tokens);
  if (config.max_length && *config.max_length > n_start) return *config.max_length - n_start;
  return kDefaultNewTokens;
}

}  // namespace

TargetRequest request_of(const GenerateOptions& o) {
  return {o.max_tokens, o.sampling, o.beams, o.length_penalty, o.early_stopping, o.stop, o.stop_ids, o.ignore_eos, o.constraint};
}

TargetRequest request_of(const TranslateOptions& o) {
  static const std::optional<Constraint> kNone;
  return {o.max_tokens, o.sampling,   o.beams, o.length_penalty,       o.early_stopping,        o.stop,
          o.stop_ids,   o.ignore_eos, kNone,   o.num_return_sequences, o.decoder_start_token_id};
}

TargetSetup make_target_setup(const Model::State& state, const TargetRequest& request, int n_start) {
  const engine::GenerationConfig& config = state.config;
  TargetSetup setup;
  setup.sampler = std::make_shared<sample::Sampler>(sample::merged(config.sampling, request.sampling), token_rules(state, request));
  setup.max_new_tokens = max_new_tokens_of(state, request, n_start);
  setup.stop = request.stop;
  std::erase(setup.stop, std::string());
  if (request.early_stopping) check_enum(*request.early_stopping, EarlyStopping::kNever, "early_stopping");

  engine::TargetOptions& options = setup.options;
  if (const std::optional<TokenId> start = request.decoder_start ? request.decoder_start : config.decoder_start) options.start = {*start};
  const int beams = beams_of(state, request, *setup.sampler);
  options.beams = {
      .num_beams = beams,
      .num_return_sequences = request.num_return_sequences.value_or(beams > 1 ? std::min(beams, config.num_return_sequences) : 1),
      .length_penalty = request.length_penalty.value_or(config.length_penalty),
      .early_stopping = request.early_stopping.value_or(config.early_stopping),
      .eos_token_id = setup.sampler->tokens().eos};
  if (beams != 1) {
    if (const std::string problem = options.beams.problem(); !problem.empty()) throw Error(Code::kBadArgument, problem);
  }
  if (request.constraint)
    options.constraint = state.constraints.bind(*request.constraint, state.tokenizer.get(), static_cast<size_t>(state.traits().vocab));
  options.seed = request.sampling.seed ? *request.sampling.seed : std::random_device()();
  return setup;
}

void check_prompt(size_t n_tokens, int capacity) {
  if (n_tokens == 0) throw Error(Code::kBadArgument, "the prompt is empty; at least one token was expected");
  if (capacity > 0 && n_tokens > static_cast<size_t>(capacity))
    throw Error(Code::kTooLarge, fmt::format("the prompt has {} tokens; the context has room for {}", n_tokens, capacity));
}

std::unique_ptr<engine::Strategy> new_strategy(const Model::State& state, TargetSetup& setup, size_t n_prompt, int capacity) {
  engine::TargetOptions& target = setup.options;
  target.scores = false;
  target.beams.max_length = n_prompt + static_cast<size_t>(setup.max_new_tokens);
  if (setup.searches_beams()) {
    // Every token of a beam is computed, so that all of them need room.
    if (capacity > 0) target.beams.max_length = std::min(target.beams.max_length, static_cast<size_t>(capacity));
    if (target.beams.max_length <= n_prompt)
      throw Error(Code::kTooLarge, fmt::format("the prompt has {} tokens; the context has no room for another", n_prompt));
  } else if (state.tokenizer != nullptr) {
    target.text = [tokenizer = state.tokenizer, stop = setup.stop] { return std::make_unique<engine::TextOutput>(tokenizer, stop); };
  }
  return engine::new_strategy(setup.sampler, target, {n_prompt, {}, 0});
}

size_t longest_sequence(const TargetSetup& setup, int capacity) {
  const size_t longest = setup.options.beams.max_length;
  return capacity > 0 ? std::min(longest, static_cast<size_t>(capacity) + 1) : longest;  // the last token chosen is not computed
}

Hypothesis describe(const Model::State& state, const TargetSetup& setup, const engine::Target& target, const Skip& skip) {
  Hypothesis described{target.ids, "", target.score, target.finish};
  if (state.tokenizer == nullptr) return described;
  std::vector<TokenId> shown = target.ids;
  const std::vector<TokenId>& eos = setup.sampler->tokens().eos;
  if (!shown.empty() && std::ranges::find(eos, shown.back()) != eos.end()) shown.pop_back();
  if (skip) std::erase_if(shown, skip);
  described.text = state.detokenize(shown);
  const size_t whole = described.text.size();
  for (const std::string& stop : setup.stop) described.text.resize(std::min(described.text.size(), described.text.find(stop)));
  if (described.text.size() < whole) described.finish = Finish::kStop;
  return described;
}

}  // namespace kvik::api
