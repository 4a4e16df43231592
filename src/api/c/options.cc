#include <cmath>

#include "api/c/boundary.h"

namespace kvik::c {
namespace {

static_assert(static_cast<int>(KVIK_BACKEND_REFERENCE) == static_cast<int>(BackendChoice::kReference));
static_assert(static_cast<int>(KVIK_CUDA) == static_cast<int>(Device::kCuda));
static_assert(static_cast<int>(KVIK_WEIGHTS_Q4) == static_cast<int>(Weights::kQ4));
static_assert(static_cast<int>(KVIK_KV_Q8) == static_cast<int>(KvStorage::kQ8));
static_assert(static_cast<int>(KVIK_LOG_ERROR) == static_cast<int>(LogLevel::kError));
static_assert(static_cast<int>(KVIK_EARLY_NEVER) == static_cast<int>(EarlyStopping::kNever));

void set(std::optional<int>& target, int32_t value) {
  if (value != KVIK_UNSET) target = value;
}
void set(std::optional<double>& target, double value) {
  if (!std::isnan(value)) target = value;
}
void set(std::string& target, const char* value) {
  if (value != nullptr) target = value;
}

// A number of an enumeration.
template <class Ours>
Ours choice(int32_t value, Ours last, const char* name) {
  if (value < 0 || value > static_cast<int32_t>(last))
    throw Error(Code::kBadArgument, fmt::format("{} is {}; 0 to {} was expected", name, value, static_cast<int32_t>(last)));
  return static_cast<Ours>(value);
}

std::vector<std::string> texts(const char* const* first, size_t n) {
  std::vector<std::string> copies;
  for (const char* text : list(first, n, "stop")) copies.emplace_back(&given(text, "a text of stop"));
  return copies;
}

std::vector<TokenId> ids(const int32_t* first, size_t n) {
  const std::span<const int32_t> given_ids = list(first, n, "stop_ids");
  return {given_ids.begin(), given_ids.end()};
}

// Both kinds of options have the same fields for sampling.
template <class Options>
void set_sampling(Options& options, const kvik_sample_options* theirs) {
  const SampleOptions sampling = sample_options(theirs);
  options.temperature = sampling.temperature;
  options.top_k = sampling.top_k;
  options.top_p = sampling.top_p;
  options.min_p = sampling.min_p;
  options.repetition_penalty = sampling.repetition_penalty;
  options.presence_penalty = sampling.presence_penalty;
  options.frequency_penalty = sampling.frequency_penalty;
  options.no_repeat_ngram_size = sampling.no_repeat_ngram_size;
  options.logit_bias = sampling.logit_bias;
  options.seed = sampling.seed;
}

template <class Options, class Ours>
void set_stops_and_watches(Options& options, const Ours& ours) {
  set(options.max_tokens, ours.max_tokens);
  options.stop = texts(ours.stop, ours.n_stop);
  options.stop_ids = ids(ours.stop_ids, ours.n_stop_ids);
  options.ignore_eos = ours.ignore_eos;
  void* const user = ours.user;
  if (const kvik_on_progress progress = ours.progress) options.progress = [=](int done, int total) { progress(user, done, total); };
  if (const kvik_on_cancelled cancelled = ours.cancelled) options.cancelled = [=] { return cancelled(user); };
}

kvik_sample_options default_sample_options() {
  kvik_sample_options options{};
  options.size = sizeof options;
  options.temperature = options.top_p = options.min_p = options.repetition_penalty = NAN;
  options.presence_penalty = options.frequency_penalty = NAN;
  options.top_k = options.no_repeat_ngram_size = KVIK_UNSET;
  return options;
}

kvik_translate_options default_translate_options() {
  kvik_translate_options options{};
  options.size = sizeof options;
  options.length_penalty = options.encoder_repetition_penalty = NAN;
  options.beams = options.early_stopping = options.num_return_sequences = options.max_tokens = KVIK_UNSET;
  options.min_length = options.min_new_tokens = options.encoder_no_repeat_ngram_size = KVIK_UNSET;
  options.decoder_start_token_id = options.forced_bos_token_id = options.forced_eos_token_id = options.batch = KVIK_UNSET;
  return options;
}

}  // namespace

kvik_generate_options default_generate_options() {
  kvik_generate_options options{};
  options.size = sizeof options;
  options.max_tokens = KVIK_UNSET;
  return options;
}

SampleOptions sample_options(const kvik_sample_options* theirs) {
  kvik_sample_options ours = default_sample_options();
  read_struct(theirs, ours, "kvik_sample_options");
  SampleOptions options;
  set(options.temperature, ours.temperature);
  set(options.top_k, ours.top_k);
  set(options.top_p, ours.top_p);
  set(options.min_p, ours.min_p);
  set(options.repetition_penalty, ours.repetition_penalty);
  set(options.presence_penalty, ours.presence_penalty);
  set(options.frequency_penalty, ours.frequency_penalty);
  set(options.no_repeat_ngram_size, ours.no_repeat_ngram_size);
  for (const kvik_logit_bias& bias : list(ours.logit_bias, ours.n_logit_bias, "logit_bias"))
    options.logit_bias.emplace_back(bias.id, bias.bias);
  if (ours.has_seed) options.seed = ours.seed;
  return options;
}

GenerateOptions generate_options(const kvik_generate_options& ours) {
  GenerateOptions options;
  set_sampling(options, ours.sampling);
  set_stops_and_watches(options, ours);
  options.use_cache = !ours.recompute;
  return options;
}

TranslateOptions translate_options(const kvik_translate_options* theirs) {
  kvik_translate_options ours = default_translate_options();
  read_struct(theirs, ours, "kvik_translate_options");
  TranslateOptions options;
  set_sampling(options, ours.sampling);
  set_stops_and_watches(options, ours);
  set(options.beams, ours.beams);
  set(options.length_penalty, ours.length_penalty);
  if (ours.early_stopping != KVIK_UNSET) options.early_stopping = choice(ours.early_stopping, EarlyStopping::kNever, "early_stopping");
  set(options.num_return_sequences, ours.num_return_sequences);
  set(options.language, ours.language);
  set(options.source_language, ours.source_language);
  set(options.min_length, ours.min_length);
  set(options.min_new_tokens, ours.min_new_tokens);
  set(options.encoder_no_repeat_ngram_size, ours.encoder_no_repeat_ngram_size);
  set(options.encoder_repetition_penalty, ours.encoder_repetition_penalty);
  set(options.decoder_start_token_id, ours.decoder_start_token_id);
  set(options.forced_bos_token_id, ours.forced_bos_token_id);
  set(options.forced_eos_token_id, ours.forced_eos_token_id);
  if (ours.batch != KVIK_UNSET) options.batch = ours.batch;
  options.truncate = ours.truncate;
  return options;
}

LoadOptions load_options(const kvik_load_options* theirs) {
  kvik_load_options ours{};
  read_struct(theirs, ours, "kvik_load_options");
  LoadOptions options;
  options.backend = choice(ours.backend, BackendChoice::kReference, "backend");
  options.device = choice(ours.device, Device::kCuda, "device");
  options.weights = choice(ours.weights, Weights::kQ4, "weights");
  options.kv = choice(ours.kv, KvStorage::kQ8, "kv");
  options.threads = ours.threads;
  options.context = ours.context;
  set(options.isa, ours.isa);
  if (ours.variant != nullptr) options.variant = ours.variant;
  if (ours.ort_library != nullptr) options.ort_library = ours.ort_library;
  if (ours.log == nullptr) return options;
  options.log = [log = ours.log, user = ours.user](LogLevel level, std::string_view sentence) {
    log(user, static_cast<kvik_log_level>(level), std::string(sentence).c_str());
  };
  return options;
}

}  // namespace kvik::c

using namespace kvik::c;

void kvik_load_options_init(kvik_load_options* options, size_t size) { write_defaults(options, size, kvik_load_options{}); }

void kvik_sample_options_init(kvik_sample_options* options, size_t size) { write_defaults(options, size, default_sample_options()); }

void kvik_generate_options_init(kvik_generate_options* options, size_t size) { write_defaults(options, size, default_generate_options()); }

void kvik_translate_options_init(kvik_translate_options* options, size_t size) {
  write_defaults(options, size, default_translate_options());
}
