#include "cli/target_options.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/choices.h"
#include "cli/validators.h"

namespace kvik::cli {

namespace {

constexpr int kMostBeams = 1024;

// As "--top-k" for "top_k".
std::string flag_of(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::pair<TokenId, double> parse_bias(const std::string& text) {
  const size_t colon = text.find(':');
  char* end = nullptr;
  const std::vector<TokenId> ids = parse_ids(text.substr(0, colon));
  const double bias = colon == std::string::npos ? 0 : std::strtod(text.c_str() + colon + 1, &end);
  if (ids.size() != 1 || colon + 1 >= text.size() || end == nullptr || *end != 0)
    throw Error(Code::kBadArgument, fmt::format("'{}' is not a bias; ID:NUMBER was expected", text.substr(0, 60)));
  return {ids.front(), bias};
}

// A list of ids, or several: each use of the flag adds one. An empty list overrides the one of the model's files.
template <class T>
void add_list(const std::vector<std::string>& values, std::optional<T>& target) {
  if (!target) target.emplace();
  for (const std::string& value : values) {
    if constexpr (std::is_same_v<T, std::vector<TokenId>>) {
      for (const TokenId id : parse_ids(value)) target->push_back(id);
    } else if constexpr (std::is_same_v<T, std::vector<std::pair<TokenId, double>>>) {
      target->push_back(parse_bias(value));
    } else if (std::vector<TokenId> ids = parse_ids(value); !ids.empty()) {
      target->push_back(std::move(ids));
    }
  }
}

template <class T>
CLI::Option* add_field(CLI::App& command, const std::string& flag, std::optional<T>& target, const std::string& help) {
  if constexpr (std::is_same_v<T, bool>) {
    return command.add_flag(flag, target, help);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return command.add_option(flag, target, help);
  } else {
    const auto read = [&target](const CLI::results_t& values) {
      add_list(values, target);
      return true;
    };
    return command.add_option(flag, read, help);
  }
}

template <class Options>
void add_shared_options(CLI::App& command, Options& options) {
  command.add_option("-n,--max-tokens", options.max_tokens, "Maximum number of new tokens")->check(at_least(0))->option_text("N");
  command.add_option("--stop", options.stop, "Text that ends generation (repeatable)")->option_text("TEXT");
  const auto read_ids = [&options](const CLI::results_t& values) {
    for (const std::string& value : values) {
      for (const TokenId id : parse_ids(value)) options.stop_ids.push_back(id);
    }
    return true;
  };
  command.add_option("--stop-ids", read_ids, "Token ids that end generation")->option_text("ID,ID…");
  command.add_flag("--ignore-eos", options.ignore_eos, "Continue past the model's end tokens");
  command.add_option("--beams", options.beams, "Number of beams; 1: no beam search")->check(between(1, kMostBeams))->option_text("N");
  command
      .add_option("--length-penalty", options.length_penalty,
                  "Exponent of the length in a beam's score; values above 0 favor longer results")
      ->option_text("X");
  add_choice(command, {"--early-stopping", "When a beam search ends: false, true or never, as in Hugging Face"}, options.early_stopping,
             Choices<EarlyStopping>{{"false", EarlyStopping::kFalse}, {"true", EarlyStopping::kTrue}, {"never", EarlyStopping::kNever}});
}

}  // namespace

void add_sampling_options(CLI::App& command, Sampling& sampling, bool with_encoder) {
  for (const SamplingField& field : sampling_fields()) {
    if (field.help.empty()) continue;  // only in files
    const bool needs_encoder = field.name.starts_with("encoder_") || field.name.starts_with("forced_");
    if (needs_encoder && !with_encoder) continue;
    std::visit(
        [&]<class T>(std::optional<T> Sampling::*member) {
          if constexpr (!std::is_same_v<T, std::vector<SequenceBias>> && !std::is_same_v<T, DecayLengthPenalty>) {
            CLI::Option* option = add_field(command, flag_of(field.name), sampling.*member, std::string(field.help));
            if (!field.value_name.empty()) option->option_text(std::string(field.value_name));
          }
        },
        field.member);
  }
}

void add_generation_options(CLI::App& command, GenerateOptions& options) {
  add_shared_options(command, options);
  add_constraint_options(command, options);
  add_sampling_options(command, options.sampling, false);
}

void add_generation_options(CLI::App& command, TranslateOptions& options) {
  add_shared_options(command, options);
  command.add_option("--num-return-sequences", options.num_return_sequences, "Number of results per input (with --json)")
      ->check(at_least(1))
      ->option_text("N");
  command.add_option("--decoder-start-token-id", options.decoder_start_token_id, "First token of the decoder")->option_text("ID");
  add_sampling_options(command, options.sampling, true);
}

void add_speculation_options(CLI::App& command, SpeculationOptions& options) {
  add_choice(command,
             {"--speculate", "Compute several tokens per run: lookup proposes those found in the context; the output stays the same"},
             options.speculate, Choices<Speculate>{{"lookup", Speculate::kLookup}, {"off", Speculate::kOff}});
  command.add_option("--draft", options.draft, "Smaller model with the same vocabulary that proposes tokens; the output stays the same")
      ->option_text("MODEL");
  add_weights_option(command, "--draft-weights", options.draft_weights,
                     "Weights format of the draft model (native backend; default: q4; the output does not depend on it)");
}

void apply(const SpeculationOptions& options, const ModelOptions& model, const Terminal& terminal, GenerateOptions& generate) {
  generate.speculate = options.speculate;
  if (options.draft.empty()) return;
  ModelOptions draft = model;
  draft.model = options.draft;
  draft.load.variant.reset();
  const bool may_be_native = draft.load.backend == BackendChoice::kAuto || draft.load.backend == BackendChoice::kNative;
  draft.load.weights = may_be_native ? options.draft_weights : Weights::kAuto;
  generate.draft = std::make_shared<const Model>(load_model(draft, terminal));
}

std::string describe_speculation(const Metrics& metrics) {
  if (metrics.proposed_tokens == 0) return "";
  return fmt::format(", {} of {} proposed tokens accepted ({:.1f} tokens per run)", metrics.accepted_tokens, metrics.proposed_tokens,
                     metrics.tokens_per_run());
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

std::vector<Features> read_features(const std::string& path, int rank) {
  if (rank == 0) throw Error(Code::kBadArgument, "the encoder of this model reads token ids, not features; pass a text or --ids");
  Features all = read_npy_features(path);
  const int n_axes = static_cast<int>(all.shape.size());
  if (n_axes != rank && n_axes != rank + 1)
    throw Error(Code::kBadArgument, fmt::format("{}: it has the shape [{}]; the encoder reads {} axes, or {} with a batch", path,
                                                fmt::join(all.shape, ", "), rank, rank + 1));
  if (n_axes == rank) return {std::move(all)};
  std::vector<Features> sources;
  const auto n_sources = static_cast<size_t>(all.shape.front());
  const size_t size = n_sources == 0 ? 0 : all.values.size() / n_sources;
  for (size_t i = 0; i < n_sources; ++i) {
    const auto first = all.values.begin() + static_cast<std::ptrdiff_t>(i * size);
    sources.push_back({{all.shape.begin() + 1, all.shape.end()}, {first, first + static_cast<std::ptrdiff_t>(size)}});
  }
  return sources;
}

}  // namespace kvik::cli
