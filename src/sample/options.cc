#include "sample/options.h"

#include <cmath>
#include <fmt/format.h>
#include <string_view>

namespace kvik::sample {
namespace {

class Problems {
 public:
  template <typename T>
  void require(bool holds, std::string_view name, T found, std::string_view expected) {
    if (!holds) sentences_.push_back(fmt::format("{} is {}; it must be {}", name, found, expected));
  }
  void share(std::string_view name, double found) {
    require(found >= 0.0 && found <= 1.0, name, found, "a number from 0 to 1");  // false for NaN
  }
  void positive(std::string_view name, double found) {
    require(found > 0.0 && std::isfinite(found), name, found, "a positive number (1 changes nothing)");
  }
  void finite(std::string_view name, double found) { require(std::isfinite(found), name, found, "a finite number"); }
  void count(std::string_view name, int found) { require(found >= 0, name, found, "0 or a positive whole number"); }
  void ids(std::string_view name, const std::vector<TokenId>& found) {
    for (const TokenId id : found) require(id >= 0, fmt::format("an id of {}", name), id, "0 or more");
  }
  void below(std::string_view name, TokenId id, size_t vocab_size) {
    if (id >= 0 && static_cast<size_t>(id) < vocab_size) return;
    sentences_.push_back(fmt::format("{} has the id {}; the vocabulary ends at {}", name, id, static_cast<int64_t>(vocab_size) - 1));
  }
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  std::vector<std::string> sentences_;
};

void check_numbers(const SamplingOptions& o, Problems& problems) {
  problems.require(o.temperature >= 0.0 && std::isfinite(o.temperature), "temperature", o.temperature, "0 (greedy) or a positive number");
  problems.count("top_k", o.top_k);
  problems.share("top_p", o.top_p);
  problems.share("min_p", o.min_p);
  problems.require(o.typical_p > 0.0 && o.typical_p <= 1.0, "typical_p", o.typical_p, "above 0 and at most 1");
  problems.require(o.epsilon_cutoff >= 0.0 && o.epsilon_cutoff < 1.0, "epsilon_cutoff", o.epsilon_cutoff, "at least 0 and below 1");
  problems.require(o.eta_cutoff >= 0.0 && o.eta_cutoff < 1.0, "eta_cutoff", o.eta_cutoff, "at least 0 and below 1");
  problems.positive("repetition_penalty", o.repetition_penalty);
  problems.positive("encoder_repetition_penalty", o.encoder_repetition_penalty);
  problems.finite("presence_penalty", o.presence_penalty);
  problems.finite("frequency_penalty", o.frequency_penalty);
  problems.count("no_repeat_ngram_size", o.no_repeat_ngram_size);
  problems.count("encoder_no_repeat_ngram_size", o.encoder_no_repeat_ngram_size);
  problems.count("min_length", o.min_length);
  problems.count("min_new_tokens", o.min_new_tokens);
  if (!o.exponential_decay_length_penalty) return;
  problems.count("the start of exponential_decay_length_penalty", o.exponential_decay_length_penalty->start);
  problems.positive("the factor of exponential_decay_length_penalty", o.exponential_decay_length_penalty->factor);
}

void check_bias(std::string_view name, double bias, Problems& problems) {
  problems.require(bias < INFINITY, name, bias, "a number, or minus infinity to ban");  // false for NaN
}

void check_ids(const SamplingOptions& o, Problems& problems) {
  for (const auto& [id, bias] : o.logit_bias) {
    problems.require(id >= 0, "an id of logit_bias", id, "0 or more");
    check_bias("a logit_bias", bias, problems);
  }
  for (const SequenceBias& entry : o.sequence_bias) {
    problems.require(!entry.ids.empty(), "a sequence of sequence_bias", "empty", "at least one id long");
    problems.ids("sequence_bias", entry.ids);
    check_bias("a sequence_bias", entry.bias, problems);
  }
  for (const std::vector<TokenId>& sequence : o.bad_words_ids) {
    problems.require(!sequence.empty(), "a sequence of bad_words_ids", "empty", "at least one id long");
    problems.ids("bad_words_ids", sequence);
  }
  problems.ids("forced_eos_token_id", o.forced_eos_token_id);
  if (o.forced_bos_token_id) problems.require(*o.forced_bos_token_id >= 0, "forced_bos_token_id", *o.forced_bos_token_id, "0 or more");
}

}  // namespace

bool SamplingOptions::greedy() const { return temperature < kSmallestTemperature; }

std::vector<std::string> SamplingOptions::validate() const {
  Problems problems;
  check_numbers(*this, problems);
  check_ids(*this, problems);
  return problems.take();
}

std::vector<std::string> SamplingOptions::validate(size_t vocab_size) const {
  std::vector<std::string> sentences = validate();
  if (!sentences.empty()) return sentences;
  Problems problems;
  for (const auto& [id, bias] : logit_bias) problems.below("logit_bias", id, vocab_size);
  for (const SequenceBias& entry : sequence_bias) {
    for (const TokenId id : entry.ids) problems.below("sequence_bias", id, vocab_size);
  }
  for (const TokenId id : forced_eos_token_id) problems.below("forced_eos_token_id", id, vocab_size);
  if (forced_bos_token_id) problems.below("forced_bos_token_id", *forced_bos_token_id, vocab_size);
  return problems.take();
}

}  // namespace kvik::sample
