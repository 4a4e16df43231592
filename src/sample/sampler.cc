#include "sample/sampler.h"

#include <algorithm>
#include <limits>

#include "kvik/error.h"
#include "sample/choice.h"
#include "sample/log_softmax.h"

namespace kvik::sample {
namespace {

constexpr float kNotChosen = -std::numeric_limits<float>::infinity();

std::vector<SequenceBias> all_biases(const SamplingOptions& options) {
  std::vector<SequenceBias> biases = options.sequence_bias;
  for (const auto& [id, bias] : options.logit_bias) biases.push_back({{id}, bias});
  return biases;
}

std::vector<std::vector<TokenId>> without_ends(std::vector<std::vector<TokenId>> sequences, const std::vector<TokenId>& ends) {
  std::erase_if(sequences, [&](const std::vector<TokenId>& sequence) {
    return sequence.size() == 1 && std::ranges::find(ends, sequence.front()) != ends.end();
  });
  return sequences;
}

// Collects the logits that are at least `lowest`, and their ids.
void collect(std::span<const float> logits, float lowest, Workspace& workspace) {
  workspace.values.clear();
  workspace.ids.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] >= lowest) || logits[i] == kNotChosen) continue;
    workspace.values.push_back(logits[i]);
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

Sampler::Sampler(SamplingOptions options, size_t vocab_size)
    : options_(std::move(options)), biases_(all_biases(options_)), bad_words_(without_ends(options_.bad_words_ids, options_.eos_token_id)) {
  const std::vector<std::string> problems = options_.validate(vocab_size);
  if (!problems.empty()) throw Error(Code::kBadArgument, problems.front());
}

void Sampler::process(std::span<float> logits, const History& history, Workspace& workspace) const {
  biases_.apply(logits, history.tokens);
  penalise(logits, history, workspace);
  ban_sequences_and_ends(logits, history);
  force_and_suppress(logits, history);
}

void Sampler::penalise(std::span<float> logits, const History& history, Workspace& workspace) const {
  if (options_.encoder_repetition_penalty != 1.0 && !history.source.empty()) {
    penalise_repetition(logits, history.source, 1.0 / options_.encoder_repetition_penalty, workspace.counts);
  }
  if (options_.repetition_penalty != 1.0) { penalise_repetition(logits, history.tokens, options_.repetition_penalty, workspace.counts); }
  if (options_.presence_penalty != 0.0 || options_.frequency_penalty != 0.0) {
    penalise_counts(logits, history.generated(), {options_.presence_penalty, options_.frequency_penalty}, workspace.counts);
  }
}

void Sampler::ban_sequences_and_ends(std::span<float> logits, const History& history) const {
  ban_repeated_ngrams(logits, history.tokens, static_cast<size_t>(options_.no_repeat_ngram_size));
  ban_ngrams_of(history.source, logits, history.tokens, static_cast<size_t>(options_.encoder_no_repeat_ngram_size));
  ban_sequences(logits, history.tokens, bad_words_);
  const bool too_short = history.tokens.size() < static_cast<size_t>(options_.min_length) ||
                         history.generated().size() < static_cast<size_t>(options_.min_new_tokens);
  if (too_short) ban(logits, options_.eos_token_id);
}

void Sampler::force_and_suppress(std::span<float> logits, const History& history) const {
  const size_t length = history.tokens.size();
  if (options_.forced_bos_token_id && length == 1) force(logits, std::span(&*options_.forced_bos_token_id, 1));
  if (!options_.forced_eos_token_id.empty() && length + 1 == history.max_length) force(logits, options_.forced_eos_token_id);
  if (options_.remove_invalid_values) replace_invalid(logits);
  if (options_.exponential_decay_length_penalty) {
    const auto& [start, factor] = *options_.exponential_decay_length_penalty;
    const size_t from = history.prompt_length + static_cast<size_t>(start);
    if (length > from) favour_ends(logits, options_.eos_token_id, factor, length - from);
  }
  ban(logits, options_.suppress_tokens);
  // After a start token a forced one comes first, and what begins is the token after it.
  const bool begins_later = history.prompt_length <= 1 && options_.forced_bos_token_id.has_value();
  if (length == history.prompt_length + (begins_later ? 1 : 0)) ban(logits, options_.begin_suppress_tokens);
}

void Sampler::filter(std::span<float> logits, Workspace& workspace) const {
  if (options_.greedy()) return;
  collect_candidates(logits, workspace);
  std::ranges::fill(logits, kNotChosen);
  for (size_t i = 0; i < workspace.ids.size(); ++i) logits[static_cast<size_t>(workspace.ids[i])] = workspace.values[i];
}

void Sampler::collect_candidates(std::span<float> logits, Workspace& workspace) const {
  if (options_.temperature != 1.0) divide_by_temperature(logits, options_.temperature);
  const auto k = static_cast<size_t>(options_.top_k);
  collect(logits, k > 0 ? kth_largest(logits, k, workspace.filters) : kNotChosen, workspace);
  std::vector<float>& values = workspace.values;
  const auto apply = [&](bool wanted, const auto& keep) {
    if (!wanted) return;
    keep();
    drop_removed(workspace);  // what comes after has less to do
  };
  apply(options_.top_p < 1.0, [&] { keep_top_p(values, options_.top_p, workspace.filters); });
  apply(options_.min_p > 0.0, [&] { keep_min_p(values, options_.min_p); });
  apply(options_.typical_p < 1.0, [&] { keep_typical(values, options_.typical_p, workspace.filters); });
  apply(options_.epsilon_cutoff > 0.0, [&] { cut_epsilon(values, options_.epsilon_cutoff); });
  apply(options_.eta_cutoff > 0.0, [&] { cut_eta(values, options_.eta_cutoff, workspace.filters); });
}

std::optional<TokenId> Sampler::sample(std::span<float> logits, const History& history, Rng& rng, Workspace& workspace) const {
  process(logits, history, workspace);
  if (options_.greedy()) {
    const std::optional<size_t> index = choose_greedily(logits);
    return index ? std::optional(static_cast<TokenId>(*index)) : std::nullopt;
  }
  collect_candidates(logits, workspace);
  const std::optional<size_t> index = choose_randomly(workspace.values, rng, workspace.filters);
  return index ? std::optional(workspace.ids[*index]) : std::nullopt;
}

void Sampler::log_probs(std::span<float> row, const History& history, Workspace& workspace) const {
  log_softmax(row, row);
  process(row, history, workspace);
  if (options_.renormalize_logits) log_softmax(row, row);
}

}  // namespace kvik::sample
