#include "cli/target_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "backend/graph/convert.h"
#include "cli/validators.h"
#include "kvik/error.h"
#include "sample/beam.h"
#include "tensor/npy.h"

namespace kvik::cli {

TranslateOptions TargetOptions::settled() const {
  TranslateOptions all = search;
  all.max_tokens = generate.max_tokens;
  all.temperature = generate.temperature;
  all.top_k = generate.top_k;
  all.top_p = generate.top_p;
  all.min_p = generate.min_p;
  all.repetition_penalty = generate.repetition_penalty;
  all.presence_penalty = generate.presence_penalty;
  all.frequency_penalty = generate.frequency_penalty;
  all.no_repeat_ngram_size = generate.no_repeat_ngram_size;
  all.logit_bias = generate.logit_bias;
  all.seed = generate.seed;
  all.stop = generate.stop;
  all.stop_ids = generate.stop_ids;
  all.ignore_eos = generate.ignore_eos;
  if (suppress) all.suppress_tokens = parse_ids(*suppress);
  if (begin_suppress) all.begin_suppress_tokens = parse_ids(*begin_suppress);
  if (!bad_words.empty()) all.bad_words_ids.emplace();
  for (const std::string& ids : bad_words) {
    if (std::vector<TokenId> sequence = parse_ids(ids); !sequence.empty()) all.bad_words_ids->push_back(std::move(sequence));
  }
  return all;
}

void add_beam_options(CLI::App& command, TargetOptions& options) {
  command.add_option("--beams", options.search.beams, "Number of beams; 1: no beam search")
      ->check(between(1, sample::kMostBeams))
      ->option_text("N");
  command
      .add_option("--length-penalty", options.search.length_penalty,
                  "Exponent of the length in a beam's score; above 0 favors long results")
      ->option_text("X");
  command
      .add_option("--early-stopping", options.search.early_stopping, "When a beam search ends: false, true or never, as in Hugging Face")
      ->transform(CLI::CheckedTransformer(
                      std::map<std::string, EarlyStopping>{
                          {"false", EarlyStopping::kFalse}, {"true", EarlyStopping::kTrue}, {"never", EarlyStopping::kNever}},
                      CLI::ignore_case)
                      .description(""))
      ->option_text("false|true|never");
}

void add_target_options(CLI::App& command, TargetOptions& options) {
  add_sampling_options(command, options.generate);
  add_beam_options(command, options);
  command.add_option("--num-return-sequences", options.search.num_return_sequences, "Results per input (--json)")
      ->check(at_least(1))
      ->option_text("N");
  command.add_option("--min-length", options.search.min_length, "Minimum length in tokens, start tokens included")->option_text("N");
  command.add_option("--min-new-tokens", options.search.min_new_tokens, "Minimum number of new tokens")->option_text("N");
  command
      .add_option("--encoder-no-repeat-ngram-size", options.search.encoder_no_repeat_ngram_size,
                  "No sequence of N tokens of the source occurs in the result")
      ->option_text("N");
  command
      .add_option("--encoder-repetition-penalty", options.search.encoder_repetition_penalty,
                  "Above 1 makes tokens of the source more likely")
      ->option_text("X");
  command.add_option("--decoder-start-token-id", options.search.decoder_start_token_id, "First token of the decoder")->option_text("ID");
  command.add_option("--forced-bos-token-id", options.search.forced_bos_token_id, "Forced first token; -1: none")->option_text("ID");
  command.add_option("--forced-eos-token-id", options.search.forced_eos_token_id, "Forced last token at the maximum length; -1: none")
      ->option_text("ID");
  command.add_option("--bad-words-ids", options.bad_words, "Sequence of tokens that may not occur (repeatable); \"\": none")
      ->option_text("ID,ID…");
  command.add_option("--suppress-tokens", options.suppress, "Tokens that may not occur; \"\": none")->option_text("ID,ID…");
  command.add_option("--begin-suppress-tokens", options.begin_suppress, "Tokens that may not come first; \"\": none")
      ->option_text("ID,ID…");
}

std::string shown(const Model& model, const Hypothesis& hypothesis) {
  return model.has_tokenizer() ? hypothesis.text : fmt::format("{}", fmt::join(hypothesis.ids, ","));
}

Json to_json(const Hypothesis& hypothesis) {
  return {{"ids", hypothesis.ids}, {"text", hypothesis.text}, {"score", hypothesis.score}, {"finish", finish_name(hypothesis.finish)}};
}

void add_json(Json& entry, const std::vector<Hypothesis>& hypotheses) {
  if (!hypotheses.empty()) entry.update(to_json(hypotheses.front()));
  if (hypotheses.size() < 2) return;
  for (const Hypothesis& one : hypotheses) entry["hypotheses"].push_back(to_json(one));
}

std::vector<Tensor> read_features(const std::string& path, size_t rank) {
  const Tensor array = read_npy(std::filesystem::path(path));
  if (array.rank() != static_cast<int>(rank) && array.rank() + 1 != static_cast<int>(rank))
    throw Error(Code::kBadArgument,
                fmt::format("{}: it has the shape {}; the encoder reads {} axes, batch included", path, to_string(array.dims()), rank));
  const Tensor floats = backend::cast_float(array, DType::kF32);
  if (array.rank() + 1 == static_cast<int>(rank)) return {floats};
  std::vector<Tensor> sources;
  const Dims dims(array.dims().begin() + 1, array.dims().end());
  const int64_t size = element_count(dims);
  for (int64_t i = 0; i < array.dims().front(); ++i)
    sources.push_back(Tensor::of(dims, floats.data<float>().subspan(static_cast<size_t>(i * size), static_cast<size_t>(size))));
  return sources;
}

}  // namespace kvik::cli
