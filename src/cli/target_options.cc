#include "cli/target_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <random>

#include "backend/graph/convert.h"
#include "tensor/npy.h"

namespace kvik::cli {
namespace {

void set_ids(std::vector<TokenId>& target, const std::optional<std::string>& wanted) {
  if (wanted) target = parse_ids(*wanted);
}

sample::SamplingOptions sampling_of(const Model& model, const TargetOptions& options) {
  sample::SamplingOptions sampling = ModelAccess::state(model).sampling(options.generate.sampling());
  set_where_given(sampling.min_length, options.min_length);
  set_where_given(sampling.min_new_tokens, options.min_new_tokens);
  set_where_given(sampling.encoder_no_repeat_ngram_size, options.encoder_no_repeat_ngram_size);
  set_where_given(sampling.encoder_repetition_penalty, options.encoder_repetition_penalty);
  set_ids(sampling.suppress_tokens, options.suppress);
  if (options.suppress) ModelAccess::state(model).ban_unreadable(sampling);
  set_ids(sampling.begin_suppress_tokens, options.begin_suppress);
  if (options.forced_bos) sampling.forced_bos_token_id = *options.forced_bos < 0 ? std::nullopt : options.forced_bos;
  if (options.forced_eos)
    sampling.forced_eos_token_id = *options.forced_eos < 0 ? std::vector<TokenId>() : std::vector<TokenId>{*options.forced_eos};
  if (!options.bad_words.empty()) sampling.bad_words_ids.clear();
  for (const std::string& ids : options.bad_words) {
    if (std::vector<TokenId> sequence = parse_ids(ids); !sequence.empty()) sampling.bad_words_ids.push_back(std::move(sequence));
  }
  if (options.generate.ignore_eos) sampling.eos_token_id.clear();
  sampling.eos_token_id.insert(sampling.eos_token_id.end(), options.generate.stop_ids.begin(), options.generate.stop_ids.end());
  return sampling;
}

// Sampling draws one token after another; beams rank whole sequences. Whoever asks for one on the command line does not get the other.
int beams_of(const TargetOptions& options, const engine::GenerationConfig& config, const sample::SamplingOptions& sampling,
             const Log& log) {
  const bool asked_to_sample = options.generate.temperature && *options.generate.temperature > 0;
  const int beams = options.beams.value_or(config.beams);
  if (beams == 1 || sampling.greedy()) return beams;
  if (asked_to_sample && options.beams)
    throw Error(Code::kBadArgument, fmt::format("--beams {} and --temperature exclude each other: beams are searched, not drawn", beams));
  if (asked_to_sample) return 1;
  if (!options.beams) log.warning("generation_config.json asks for beams and for sampling; beams are searched, nothing is drawn");
  return beams;
}

}  // namespace

int beams_of(const Model& model, const TargetOptions& options, const Log& log) {
  return beams_of(options, ModelAccess::state(model).config, sampling_of(model, options), log);
}

void add_beam_options(CLI::App& command, TargetOptions& options) {
  command.add_option("--beams", options.beams, "Width of the search; 1: token by token")
      ->check(CLI::Range(1, sample::kMostBeams))
      ->option_text("N");
  command.add_option("--length-penalty", options.length_penalty, "Above 0 favours long targets")->option_text("X");
  command.add_option("--early-stopping", options.early_stopping, "When a search with enough hypotheses ends: false, true or never")
      ->transform(CLI::CheckedTransformer(std::map<std::string, sample::EarlyStopping>{{"false", sample::EarlyStopping::kNo},
                                                                                       {"true", sample::EarlyStopping::kYes},
                                                                                       {"never", sample::EarlyStopping::kNever}},
                                          CLI::ignore_case)
                      .description(""))
      ->option_text("false|true|never");
}

void add_target_options(CLI::App& command, TargetOptions& options) {
  add_sampling_options(command, options.generate);
  add_beam_options(command, options);
  command.add_option("--num-return-sequences", options.returned, "Targets to show of each source (--json)")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  command.add_option("--min-length", options.min_length, "No end before so many tokens, start tokens included")->option_text("N");
  command.add_option("--min-new-tokens", options.min_new_tokens, "No end before so many new tokens")->option_text("N");
  command.add_option("--encoder-no-repeat-ngram-size", options.encoder_no_repeat_ngram_size, "No N tokens in a row of the source occur")
      ->option_text("N");
  command.add_option("--encoder-repetition-penalty", options.encoder_repetition_penalty, "Above 1: tokens of the source are likelier")
      ->option_text("X");
  command.add_option("--decoder-start-token-id", options.decoder_start, "What the decoder starts with")->option_text("ID");
  command.add_option("--forced-bos-token-id", options.forced_bos, "The first token; -1: none is forced")->option_text("ID");
  command.add_option("--forced-eos-token-id", options.forced_eos, "The last token at the largest length; -1: none is forced")
      ->option_text("ID");
  command.add_option("--bad-words-ids", options.bad_words, "Tokens in a row that never occur (repeatable); \"\": any may")
      ->option_text("ID,ID…");
  command.add_option("--suppress-tokens", options.suppress, "Tokens that never occur; \"\": any may")->option_text("ID,ID…");
  command.add_option("--begin-suppress-tokens", options.begin_suppress, "Tokens that do not come first; \"\": any may")
      ->option_text("ID,ID…");
}

Target make_target(const Model& model, const TargetOptions& options, const Log& log) {
  const ModelAccess::State& state = ModelAccess::state(model);
  const engine::GenerationConfig& config = state.config;
  Target target;
  target.sampling = sampling_of(model, options);
  const std::optional<TokenId> start = options.decoder_start ? options.decoder_start : config.decoder_start;
  const int n_start = static_cast<int>(1 + config.forced_decoder_ids.size());
  target.max_new_tokens = options.generate.max_tokens ? *options.generate.max_tokens
                          : config.max_new_tokens     ? *config.max_new_tokens
                          : config.max_length         ? std::max(1, *config.max_length - n_start)
                                                      : kDefaultNewTokens;
  const int limit = state.backend->traits().max_positions;
  if (limit > 1) target.max_new_tokens = std::min(target.max_new_tokens, limit - 1);
  if (target.max_new_tokens < 1) throw Error(Code::kBadArgument, "no new tokens were asked for; at least 1 was expected");

  engine::SearchOptions& search = target.translate.search;
  if (start) search.start = {*start};
  const int beams = beams_of(options, config, target.sampling, log);
  const int returned = options.returned.value_or(beams > 1 ? std::min(beams, config.num_return_sequences) : 1);
  search.beams = {.num_beams = beams,
                  .num_return_sequences = returned,
                  .length_penalty = options.length_penalty.value_or(config.length_penalty),
                  .early_stopping = options.early_stopping.value_or(config.early_stopping),
                  .max_length = search.start.size() + static_cast<size_t>(target.max_new_tokens),
                  .eos_token_id = target.sampling.eos_token_id};
  if (!options.generate.stop.empty() && model.has_tokenizer()) {
    search.ends = [&model, &options](std::span<const TokenId> ids) {
      const std::string text = model.detokenize(ids);
      return std::ranges::any_of(options.generate.stop, [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
    };
  }
  target.translate.seed = options.generate.seed ? *options.generate.seed : std::random_device()();
  return target;
}

std::string text_of(const Model& model, const sample::Hypothesis& hypothesis, const TargetOptions& options) {
  if (!model.has_tokenizer()) return fmt::format("{}", fmt::join(hypothesis.ids, ","));
  std::string text = model.detokenize(hypothesis.ids);
  for (const std::string& stop : options.generate.stop) text = text.substr(0, stop.empty() ? text.npos : text.find(stop));
  return text;
}

Json to_json(const Model& model, const sample::Hypothesis& hypothesis, const Target& target, const TargetOptions& options) {
  const std::string whole = model.has_tokenizer() ? model.detokenize(hypothesis.ids) : std::string();
  const std::string text = model.has_tokenizer() ? text_of(model, hypothesis, options) : std::string();
  const std::vector<TokenId>& eos = target.sampling.eos_token_id;
  const bool ended = !hypothesis.ids.empty() && std::ranges::find(eos, hypothesis.ids.back()) != eos.end();
  const char* finish = ended || text.size() < whole.size() ? "stop" : "length";
  return {{"ids", hypothesis.ids}, {"text", text}, {"score", hypothesis.score}, {"finish", finish}};
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
