#include "sample/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kvik/error.h"
#include "sample/choice.h"
#include "sample/log_softmax.h"

namespace kvik::sample {
namespace {

constexpr float kNotChosen = -std::numeric_limits<float>::infinity();

template <class T>
T list_or_empty(const std::optional<T>& list) {
  return list.value_or(T());
}

std::vector<SequenceBias> all_biases(const Sampling& options) {
  std::vector<SequenceBias> biases = list_or_empty(options.sequence_bias);
  for (const auto& [id, bias] : list_or_empty(options.logit_bias)) biases.push_back({{id}, bias});
  return biases;
}

std::vector<std::vector<TokenId>> without_ends(std::vector<std::vector<TokenId>> sequences, const std::vector<TokenId>& ends) {
  std::erase_if(sequences, [&](const std::vector<TokenId>& sequence) {
    return sequence.size() == 1 && std::ranges::find(ends, sequence.front()) != ends.end();
  });
  return sequences;
}

// Collects the logits that are at least `lowest` after division by the temperature, and their ids.
void collect(std::span<const float> logits, double temperature, float lowest, Workspace& workspace) {
  workspace.values.clear();
  workspace.ids.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const float value = at_temperature(logits[i], temperature);
    if (!(value >= lowest) || value == kNotChosen) continue;
    workspace.values.push_back(value);
    workspace.ids.push_back(static_cast<TokenId>(i));
  }
}

void drop_removed(Workspace& workspace) {
  size_t n_kept = 0;
  for (size_t i = 0; i < workspace.values.size(); ++i) {
    if (workspace.values[i] == kNotChosen) continue;
    workspace.values[n_kept] = workspace.values[i];
    workspace.ids[n_kept++] = workspace.ids[i];
  }
  workspace.values.resize(n_kept);
  workspace.ids.resize(n_kept);
}

}  // namespace

void Workspace::reserve(size_t vocab) {
  filters.weights.reserve(vocab);
  filters.values.reserve(vocab);
  filters.keys.reserve(vocab);
  counts.reserve(vocab);
  row.reserve(vocab);
  values.reserve(vocab);
  ids.reserve(vocab);
  sparse.reserve(vocab);
}

Sampler::Sampler(const Sampling& sampling, TokenRules tokens)
    : tokens_(std::move(tokens)),
      options_(with_defaults(sampling)),
      biases_(all_biases(options_)),
      bad_words_(without_ends(list_or_empty(options_.bad_words_ids), tokens_.eos)),
      processes_(changes_logits()),
      only_lowers_(only_lowers_logits()) {
  const std::string problem = problem_of(options_, tokens_.vocab_size);
  if (!problem.empty()) throw Error(Code::kBadArgument, problem);
}

// Draw filters and the seed do not count: they act on candidates, not on the row.
bool Sampler::changes_logits() const {
  if (!biases_.empty() || !bad_words_.empty() || !tokens_.unsupported.empty() || tokens_.timestamps || favors_ends()) return true;
  const auto has_ids = [](const std::optional<std::vector<TokenId>>& ids) { return ids && !ids->empty(); };
  if (has_ids(options_.suppress_tokens) || has_ids(options_.begin_suppress_tokens) || has_ids(options_.forced_eos_token_id)) return true;
  return *options_.repetition_penalty != 1.0 || *options_.presence_penalty != 0.0 || *options_.frequency_penalty != 0.0 ||
         *options_.encoder_repetition_penalty != 1.0 || *options_.no_repeat_ngram_size > 0 || *options_.encoder_no_repeat_ngram_size > 0 ||
         *options_.min_length > 0 || *options_.min_new_tokens > 0 || *options_.forced_bos_token_id >= 0 || *options_.remove_invalid_values;
}

bool Sampler::favors_ends() const {
  return options_.exponential_decay_length_penalty && options_.exponential_decay_length_penalty->factor != 1.0;
}

bool Sampler::only_lowers_logits() const {
  return biases_.only_lower() && !tokens_.timestamps && !favors_ends() && *options_.repetition_penalty >= 1.0 &&
         *options_.presence_penalty >= 0.0 && *options_.frequency_penalty >= 0.0 && *options_.encoder_repetition_penalty == 1.0 &&
         *options_.forced_bos_token_id < 0 && !*options_.remove_invalid_values;
}

// With the last token that fits.
bool Sampler::forces_end(const History& history) const {
  const auto& ends = options_.forced_eos_token_id;
  return ends && !ends->empty() && history.tokens.size() + 1 == history.max_length;
}

void Sampler::process(std::span<float> logits, const History& history, Workspace& workspace) const {
  if (history.allowed != nullptr) keep_allowed(logits, history);
  biases_.apply(logits, history.tokens);
  penalize(logits, history, workspace);
  ban_sequences_and_ends(logits, history);
  force_and_suppress(logits, history);
  if (tokens_.timestamps) apply_timestamp_rules(logits, history.generated(), *tokens_.timestamps);
  if (history.allowed != nullptr && *options_.remove_invalid_values) keep_allowed(logits, history);  // it makes -inf finite
}

// End tokens are not text: whether they are allowed does not depend on what they would add.
void Sampler::keep_allowed(std::span<float> logits, const History& history) const {
  history.allowed->tokens->apply(logits, history.allowed->end ? std::span(tokens_.eos) : std::span<const TokenId>());
  if (!history.allowed->end) ban(logits, tokens_.eos);
}

bool Sampler::is_allowed(TokenId id, const History& history) const {
  if (history.allowed == nullptr) return true;
  const bool ends = std::ranges::find(tokens_.eos, id) != tokens_.eos.end();
  return ends ? history.allowed->end : history.allowed->tokens->contains(id);
}

void Sampler::penalize(std::span<float> logits, const History& history, Workspace& workspace) const {
  if (*options_.encoder_repetition_penalty != 1.0 && !history.source.empty())
    penalize_repetition(logits, history.source, 1.0 / *options_.encoder_repetition_penalty, workspace.counts);
  if (*options_.repetition_penalty != 1.0) penalize_repetition(logits, history.tokens, *options_.repetition_penalty, workspace.counts);
  if (*options_.presence_penalty != 0.0 || *options_.frequency_penalty != 0.0)
    penalize_counts(logits, history.generated(), {*options_.presence_penalty, *options_.frequency_penalty}, workspace.counts);
}

void Sampler::ban_sequences_and_ends(std::span<float> logits, const History& history) const {
  ban_repeated_ngrams(logits, history.tokens, static_cast<size_t>(*options_.no_repeat_ngram_size));
  ban_ngrams_of(history.source, logits, history.tokens, static_cast<size_t>(*options_.encoder_no_repeat_ngram_size));
  ban_sequences(logits, history.tokens, bad_words_);
  const bool too_short = history.tokens.size() < static_cast<size_t>(*options_.min_length) ||
                         history.generated().size() < static_cast<size_t>(*options_.min_new_tokens);
  if (too_short) ban(logits, tokens_.eos);
}

void Sampler::force_and_suppress(std::span<float> logits, const History& history) const {
  const size_t length = history.tokens.size();
  const TokenId forced_bos = *options_.forced_bos_token_id;
  if (forced_bos >= 0 && length == 1 && is_allowed(forced_bos, history)) force(logits, std::span(&forced_bos, 1));
  const auto& forced_eos = options_.forced_eos_token_id;
  if (forces_end(history) && std::ranges::all_of(*forced_eos, [&](TokenId id) { return is_allowed(id, history); }))
    force(logits, *forced_eos);
  if (*options_.remove_invalid_values) replace_invalid(logits);
  if (options_.exponential_decay_length_penalty) {
    const auto& [start, factor] = *options_.exponential_decay_length_penalty;
    const size_t from = history.prompt_length + static_cast<size_t>(start);
    if (length > from) favor_ends(logits, tokens_.eos, factor, length - from);
  }
  if (options_.suppress_tokens) ban(logits, *options_.suppress_tokens);
  // After a start token a forced one comes first, and what begins is the token after it.
  const bool begins_later = history.prompt_length <= 1 && forced_bos >= 0;
  if (options_.begin_suppress_tokens && length == history.prompt_length + (begins_later ? 1 : 0))
    ban(logits, *options_.begin_suppress_tokens);
  ban(logits, tokens_.unsupported);
}

void Sampler::filter(std::span<float> logits, Workspace& workspace) const {
  if (is_greedy()) return;
  collect_candidates(logits, workspace);
  std::ranges::fill(logits, kNotChosen);
  for (size_t i = 0; i < workspace.ids.size(); ++i) logits[static_cast<size_t>(workspace.ids[i])] = workspace.values[i];
}

void Sampler::collect_candidates(std::span<const float> logits, Workspace& workspace) const {
  const double temperature = *options_.temperature;
  const auto k = static_cast<size_t>(*options_.top_k);
  // Division keeps the order, so the k-th largest quotient is the quotient of the k-th largest.
  const float lowest = k > 0 ? at_temperature(kth_largest(logits, k, workspace.filters), temperature) : kNotChosen;
  collect(logits, temperature, lowest, workspace);
  std::vector<float>& values = workspace.values;
  const auto apply = [&](bool wanted, const auto& keep) {
    if (!wanted) return;
    keep();
    drop_removed(workspace);  // the next filter has less to do
  };
  apply(*options_.top_p < 1.0, [&] { keep_top_p(values, *options_.top_p, workspace.filters); });
  apply(*options_.min_p > 0.0, [&] { keep_min_p(values, *options_.min_p); });
  apply(*options_.typical_p < 1.0, [&] { keep_typical(values, *options_.typical_p, workspace.filters); });
  apply(*options_.epsilon_cutoff > 0.0, [&] { cut_epsilon(values, *options_.epsilon_cutoff); });
  apply(*options_.eta_cutoff > 0.0, [&] { cut_eta(values, *options_.eta_cutoff, workspace.filters); });
}

TokenId Sampler::sample(std::span<const float> logits, const History& history, Rng& rng, Workspace& workspace) const {
  if (is_greedy() && processes_ && only_lowers(history)) {  // the largest logit, unless it becomes smaller
    const std::optional<size_t> index = choose_greedily(logits);
    const TokenLogit largest{index ? logits[*index] : kNotChosen, static_cast<TokenId>(index.value_or(0))};
    const std::optional<TokenId> id = index ? sample_candidates({&largest, 1}, history, rng, workspace) : std::nullopt;
    if (id) return *id;
  }
  std::span<const float> row = logits;
  if (processes_ || history.allowed != nullptr) {
    workspace.row.assign(logits.begin(), logits.end());
    process(workspace.row, history, workspace);
    row = workspace.row;
  }
  if (is_greedy()) {
    if (const std::optional<size_t> index = choose_greedily(row)) return static_cast<TokenId>(*index);
  } else {
    collect_candidates(row, workspace);
    if (const std::optional<size_t> index = choose_randomly(workspace.values, rng, workspace.filters)) return workspace.ids[*index];
  }
  if (history.allowed != nullptr && history.allowed->tokens->count() == 0 && !history.allowed->end)
    throw Error(Code::kBadArgument, "no token of the vocabulary continues the text toward a match of the constraint");
  throw Error(Code::kBadModel, why_no_choice(history.allowed != nullptr ? row : logits));
}

int Sampler::n_candidates() const {
  const int k = is_greedy() ? 0 : *options_.top_k;
  if (!only_lowers_ || (k == 0 && !is_greedy())) return 0;
  const int n_spare = is_greedy() ? 3 : 63;  // that penalties and bans may lower
  return k + 1 + (processes_ ? n_spare : 0);
}

// The row is -inf but for the candidates, which stay the only ones: nothing makes a logit larger.
void Sampler::process_candidates(const History& history, Workspace& workspace) const {
  workspace.sparse.resize(tokens_.vocab_size, kNotChosen);
  for (const TokenLogit& candidate : workspace.candidates) workspace.sparse[static_cast<size_t>(candidate.id)] = candidate.logit;
  process(workspace.sparse, history, workspace);
  for (TokenLogit& candidate : workspace.candidates)
    candidate.logit = std::exchange(workspace.sparse[static_cast<size_t>(candidate.id)], kNotChosen);
}

std::optional<TokenId> Sampler::sample_candidates(std::span<const TokenLogit> largest, const History& history, Rng& rng,
                                                  Workspace& workspace) const {
  if (!only_lowers(history) || largest.empty()) return std::nullopt;
  const float unseen = largest.back().logit;  // all others are smaller, before and after
  std::vector<TokenLogit>& candidates = workspace.candidates;
  candidates.assign(largest.begin(), largest.end());
  if (processes_) process_candidates(history, workspace);
  const auto is_before = [](const TokenLogit& a, const TokenLogit& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; };
  if (is_greedy()) {
    const TokenLogit best = *std::ranges::min_element(candidates, is_before);
    return best.logit >= unseen && best.logit != kNotChosen ? std::optional(best.id) : std::nullopt;
  }
  const auto k = static_cast<size_t>(*options_.top_k);
  if (k == 0 || k >= candidates.size()) return std::nullopt;
  std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(k - 1), is_before);
  // What was not seen may still have the quotient of the k-th, and would stay with it.
  const double temperature = *options_.temperature;
  if (!(at_temperature(unseen, temperature) < at_temperature(candidates[k - 1].logit, temperature))) return std::nullopt;
  std::ranges::sort(candidates, {}, &TokenLogit::id);
  workspace.row.clear();
  for (const TokenLogit& candidate : candidates) workspace.row.push_back(candidate.logit);
  collect_candidates(workspace.row, workspace);
  const std::optional<size_t> index = choose_randomly(workspace.values, rng, workspace.filters);
  if (!index) throw Error(Code::kInternal, "a filter has removed the largest logit");
  return candidates[static_cast<size_t>(workspace.ids[*index])].id;
}

void Sampler::log_probs(std::span<const float> logits, const History& history, std::span<float> result, Workspace& workspace) const {
  if (history.allowed != nullptr) {  // probabilities are those of the tokens that are allowed
    std::ranges::copy(logits, result.begin());
    keep_allowed(result, history);
    log_softmax(result, result);
  } else {
    log_softmax(logits, result);
  }
  process(result, history, workspace);
  if (*options_.renormalize_logits) log_softmax(result, result);
}

bool Sampler::best_log_probs(std::span<const float> logits, const History& history, float sum, size_t n, std::vector<TokenLogit>& best,
                             Workspace& workspace) const {
  if (*options_.renormalize_logits || !only_lowers(history)) return false;
  constexpr size_t kSpare = 8;  // that may be lowered
  RowMaxima& maxima = workspace.maxima;
  maxima.find(logits);
  const Normalizer normalizer = normalizer_of(logits, maxima.largest());
  const auto score = [&](float logit) { return static_cast<float>(log_prob_of(logit, normalizer)) + sum; };
  const float reached = maxima.reached_by(n + kSpare), bound = score(reached);
  float least = reached;  // smaller logits score less than `bound`, before and after; those a little smaller may round to the same score
  for (float step = 1e-6f; least > kNotChosen && score(least) >= bound; step *= 4.0f) least = reached - step;
  std::vector<TokenLogit>& candidates = workspace.candidates;
  candidates.clear();
  maxima.each([least](float logit) { return logit >= least; },
              [&](TokenLogit entry) {
                candidates.push_back({static_cast<float>(log_prob_of(entry.logit, normalizer)), entry.id});
              });
  if (processes_) process_candidates(history, workspace);
  std::erase_if(candidates, [](const TokenLogit& candidate) { return candidate.logit == kNotChosen; });
  best.assign(candidates.begin(), candidates.end());
  const auto n_ranked = std::ranges::count_if(best, [&](const TokenLogit& candidate) { return candidate.logit + sum >= bound; });
  return static_cast<size_t>(n_ranked) >= n;
}

float Sampler::log_prob(std::span<const float> logits, const History& history, TokenId id, Workspace& workspace) const {
  if (!processes_ && !*options_.renormalize_logits && history.allowed == nullptr) return static_cast<float>(log_prob_of(logits, id));
  if (!*options_.renormalize_logits && only_lowers(history)) {
    workspace.candidates.assign(1, {static_cast<float>(log_prob_of(logits, id)), id});
    process_candidates(history, workspace);
    return workspace.candidates.front().logit;
  }
  workspace.row.resize(logits.size());
  log_probs(logits, history, workspace.row, workspace);
  return workspace.row[static_cast<size_t>(id)];
}

}  // namespace kvik::sample
