#include "sample/fixture.h"

#include "support/paths.h"

namespace kvik::sample {

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::vector<float> fixture_row(uint64_t seed, size_t vocab, double spread, int64_t levels) {
  std::vector<float> row(vocab);
  const uint64_t base = mix(seed);
  for (size_t i = 0; i < vocab; ++i) {
    const int64_t step = static_cast<int64_t>(mix(base + i) >> 40) * levels >> 24;
    row[i] = static_cast<float>(static_cast<double>(step - levels / 2) * (spread / static_cast<double>(levels)));
  }
  return row;
}

Json sampling_fixture(const std::string& name) { return read_json_file(testing_support::fixtures() / "sampling" / name); }

std::vector<TokenId> ids_from(const Json& value) {
  if (value.is_null()) return {};
  return value.is_number() ? std::vector<TokenId>{value.get<TokenId>()} : value.get<std::vector<TokenId>>();
}

SamplingOptions options_from(const Json& options) {
  SamplingOptions o;
  const auto ids = [&](const char* name) { return options.contains(name) ? ids_from(options[name]) : std::vector<TokenId>(); };
  o.temperature = options.value("do_sample", false) ? options.value("temperature", 1.0) : 0.0;
  o.top_k = options.value("top_k", o.top_k);
  o.top_p = options.value("top_p", o.top_p);
  o.min_p = options.value("min_p", o.min_p);
  o.typical_p = options.value("typical_p", o.typical_p);
  o.epsilon_cutoff = options.value("epsilon_cutoff", o.epsilon_cutoff);
  o.eta_cutoff = options.value("eta_cutoff", o.eta_cutoff);
  o.repetition_penalty = options.value("repetition_penalty", o.repetition_penalty);
  o.encoder_repetition_penalty = options.value("encoder_repetition_penalty", o.encoder_repetition_penalty);
  o.no_repeat_ngram_size = options.value("no_repeat_ngram_size", o.no_repeat_ngram_size);
  o.encoder_no_repeat_ngram_size = options.value("encoder_no_repeat_ngram_size", o.encoder_no_repeat_ngram_size);
  o.min_length = options.value("min_length", o.min_length);
  o.min_new_tokens = options.value("min_new_tokens", o.min_new_tokens);
  o.remove_invalid_values = options.value("remove_invalid_values", o.remove_invalid_values);
  o.renormalize_logits = options.value("renormalize_logits", o.renormalize_logits);
  o.bad_words_ids = options.value("bad_words_ids", o.bad_words_ids);
  o.suppress_tokens = ids("suppress_tokens");
  o.begin_suppress_tokens = ids("begin_suppress_tokens");
  o.forced_eos_token_id = ids("forced_eos_token_id");
  o.eos_token_id = ids("eos_token_id");
  if (options.contains("forced_bos_token_id")) o.forced_bos_token_id = options["forced_bos_token_id"].get<TokenId>();
  if (options.contains("sequence_bias")) {
    for (const Json& entry : options["sequence_bias"]) o.sequence_bias.push_back({ids_from(entry[0]), entry[1].get<double>()});
  }
  if (options.contains("exponential_decay_length_penalty")) {
    const Json& decay = options["exponential_decay_length_penalty"];
    o.exponential_decay_length_penalty = {decay[0].get<int>(), decay[1].get<double>()};
  }
  return o;
}

}  // namespace kvik::sample
