#include <cmath>
#include <cstddef>
#include <limits>

#include "api/c/boundary.h"

namespace kvik::c {
namespace {

static_assert(static_cast<int>(KVIK_BACKEND_REFERENCE) == static_cast<int>(BackendChoice::kReference));
static_assert(static_cast<int>(KVIK_DEVICE_CUDA) == static_cast<int>(Device::kCuda));
static_assert(static_cast<int>(KVIK_DEVICE_AUTO) == static_cast<int>(Device::kAuto));
static_assert(static_cast<int>(KVIK_WEIGHTS_Q4) == static_cast<int>(Weights::kQ4));
static_assert(static_cast<int>(KVIK_KV_Q8) == static_cast<int>(KvStorage::kQ8));
static_assert(static_cast<int>(KVIK_LOG_LEVEL_ERROR) == static_cast<int>(LogLevel::kError));
static_assert(static_cast<int>(KVIK_SPECULATE_LOOKUP) == static_cast<int>(Speculate::kLookup));
static_assert(static_cast<int>(KVIK_EARLY_STOPPING_NEVER) == static_cast<int>(EarlyStopping::kNever));

// The numbers of kvik_sampling are those of sampling_fields(), in that order, one after another.
constexpr size_t kFirstNumber = offsetof(kvik_sampling, temperature);
constexpr size_t kNumbers = (offsetof(kvik_sampling, logit_bias) - kFirstNumber) / sizeof(double);

template <class T>
T whole_number(double value, std::string_view name) {
  const auto lowest = static_cast<double>(std::numeric_limits<T>::min());
  const double highest = std::min(static_cast<double>(std::numeric_limits<T>::max()), 9007199254740991.0);
  if (!(value >= lowest && value <= highest) || value != std::floor(value))
    throw Error(Code::kBadArgument, fmt::format("{} is {}; a whole number from {} to {} was expected", name, value, lowest, highest));
  return static_cast<T>(value);
}

template <class T>
void set(std::optional<T>& target, double value, std::string_view name) {
  if (std::isnan(value)) return;
  if constexpr (std::is_same_v<T, bool>) {
    target = value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    target = whole_number<T>(value, name);
  } else {
    target = static_cast<T>(value);
  }
}
void set(std::string& target, const char* value) {
  if (value != nullptr) target = value;
}
void set(std::optional<EarlyStopping>& target, double value) {
  std::optional<int> number;
  set(number, value, "early_stopping");
  if (number) target = static_cast<EarlyStopping>(*number);  // its range is checked where it is used
}
void set(std::optional<std::vector<TokenId>>& target, const int32_t* first, size_t n, const char* name) {
  if (first == nullptr && n == 0) return;
  const std::span<const int32_t> ids = list(first, n, name);
  target.emplace(ids.begin(), ids.end());
}

std::vector<std::string> texts(const char* const* first, size_t n) {
  std::vector<std::string> copies;
  for (const char* text : list(first, n, "stop")) copies.emplace_back(&given(text, "a text of stop"));
  return copies;
}

template <class Options, class Ours>
void set_callbacks(Options& options, const Ours& ours) {
  void* const user = ours.user;
  if (const kvik_on_progress progress = ours.progress) options.progress = [=](int done, int total) { progress(user, done, total); };
  if (const kvik_on_cancelled cancelled = ours.cancelled) options.cancelled = [=] { return cancelled(user); };
}

template <class Options, class Ours>
void set_shared(Options& options, const Ours& ours) {
  options.sampling = sampling_of(ours.sampling);
  set(options.max_tokens, ours.max_tokens, "max_tokens");
  set(options.beams, ours.beams, "beams");
  set(options.length_penalty, ours.length_penalty, "length_penalty");
  set(options.early_stopping, ours.early_stopping);
  options.stop = texts(ours.stop, ours.n_stop);
  const std::span<const int32_t> stop_ids = list(ours.stop_ids, ours.n_stop_ids, "stop_ids");
  options.stop_ids.assign(stop_ids.begin(), stop_ids.end());
  options.ignore_eos = ours.ignore_eos;
  set_callbacks(options, ours);
}

kvik_sampling default_sampling() {
  kvik_sampling sampling{};
  sampling.size = sizeof sampling;
  for (size_t i = 0; i < kNumbers; ++i) {
    const double unset = KVIK_UNSET;
    std::memcpy(reinterpret_cast<char*>(&sampling) + kFirstNumber + i * sizeof(double), &unset, sizeof unset);
  }
  return sampling;
}

kvik_translate_options default_translate_options() {
  kvik_translate_options options{};
  options.size = sizeof options;
  options.max_tokens = options.beams = options.length_penalty = options.early_stopping = KVIK_UNSET;
  options.num_return_sequences = options.decoder_start_token_id = options.batch = KVIK_UNSET;
  return options;
}

kvik_load_options default_load_options() {
  kvik_load_options options{};
  options.size = sizeof options;
  options.kv_bytes = options.reuse_prefixes = KVIK_UNSET;
  return options;
}

kvik_transcribe_options default_transcribe_options() {
  kvik_transcribe_options options{};
  options.size = sizeof options;
  options.batch = KVIK_UNSET;
  return options;
}

kvik_embed_options default_embed_options() {
  kvik_embed_options options{};
  options.size = sizeof options;
  options.normalize = KVIK_UNSET;
  options.truncate = true;
  return options;
}

kvik_engine_options default_engine_options() {
  kvik_engine_options options{};
  options.size = sizeof options;
  options.max_sequences = options.max_queue = options.kv_bytes = options.max_step_ms = KVIK_UNSET;
  return options;
}

}  // namespace

kvik_request_options default_request_options() {
  kvik_request_options options{};
  options.size = sizeof options;
  options.timeout_ms = KVIK_UNSET;
  return options;
}

kvik_generate_options default_generate_options() {
  kvik_generate_options options{};
  options.size = sizeof options;
  options.max_tokens = options.beams = options.length_penalty = options.early_stopping = KVIK_UNSET;
  return options;
}

Sampling sampling_of(const kvik_sampling* theirs) {
  kvik_sampling ours = default_sampling();
  read_struct(theirs, ours, "kvik_sampling");
  Sampling sampling;
  size_t n_numbers = 0;
  for (const SamplingField& field : sampling_fields()) {
    std::visit(
        [&]<class T>(std::optional<T> Sampling::*member) {
          if constexpr (std::is_arithmetic_v<T>) {
            double value = 0;
            std::memcpy(&value, reinterpret_cast<const char*>(&ours) + kFirstNumber + n_numbers++ * sizeof(double), sizeof value);
            set(sampling.*member, value, field.name);
          }
        },
        field.member);
  }
  if (n_numbers != kNumbers) throw Error(Code::kInternal, "kvik_sampling does not match sampling_fields()");
  for (const kvik_logit_bias& bias : list(ours.logit_bias, ours.n_logit_bias, "logit_bias")) {
    if (!sampling.logit_bias) sampling.logit_bias.emplace();
    sampling.logit_bias->emplace_back(bias.id, bias.bias);
  }
  set(sampling.forced_eos_token_id, ours.forced_eos_token_id, ours.n_forced_eos_token_id, "forced_eos_token_id");
  set(sampling.suppress_tokens, ours.suppress_tokens, ours.n_suppress_tokens, "suppress_tokens");
  set(sampling.begin_suppress_tokens, ours.begin_suppress_tokens, ours.n_begin_suppress_tokens, "begin_suppress_tokens");
  return sampling;
}

GenerateOptions generate_options(const kvik_generate_options& ours) {
  GenerateOptions options;
  set_shared(options, ours);
  options.use_cache = !ours.recompute;
  options.speculate = static_cast<Speculate>(ours.speculate);
  if (ours.constraint != nullptr) options.constraint = ours.constraint->constraint;
  if (ours.draft != nullptr) options.draft = std::make_shared<const Model>(ours.draft->model);
  return options;
}

TranslateOptions translate_options(const kvik_translate_options* theirs) {
  kvik_translate_options ours = default_translate_options();
  read_struct(theirs, ours, "kvik_translate_options");
  TranslateOptions options;
  set_shared(options, ours);
  set(options.num_return_sequences, ours.num_return_sequences, "num_return_sequences");
  set(options.decoder_start_token_id, ours.decoder_start_token_id, "decoder_start_token_id");
  if (!std::isnan(ours.batch)) options.batch = whole_number<int>(ours.batch, "batch");
  set(options.language, ours.language);
  set(options.source_language, ours.source_language);
  options.truncate = ours.truncate;
  return options;
}

EmbedOptions embed_options(const kvik_embed_options* theirs) {
  kvik_embed_options ours = default_embed_options();
  read_struct(theirs, ours, "kvik_embed_options");
  EmbedOptions options;
  set(options.pooling, ours.pooling);
  set(options.normalize, ours.normalize, "normalize");
  if (ours.prompt != nullptr) options.prompt = ours.prompt;
  options.dimensions = whole_number<int>(ours.dimensions, "dimensions");
  options.truncate = ours.truncate;
  set_callbacks(options, ours);
  return options;
}

TranscribeOptions transcribe_options(const kvik_transcribe_options* theirs) {
  kvik_transcribe_options ours = default_transcribe_options();
  read_struct(theirs, ours, "kvik_transcribe_options");
  TranscribeOptions options;
  options.decoding = translate_options(ours.decoding);
  set(options.language, ours.language);
  set(options.task, ours.task);
  options.timestamps = ours.timestamps;
  if (!std::isnan(ours.batch)) options.batch = whole_number<int>(ours.batch, "batch");
  return options;
}

LoadOptions load_options(const kvik_load_options* theirs) {
  kvik_load_options ours = default_load_options();
  read_struct(theirs, ours, "kvik_load_options");
  LoadOptions options;
  options.backend = static_cast<BackendChoice>(ours.backend);
  options.device = static_cast<Device>(ours.device);
  options.weights = static_cast<Weights>(ours.weights);
  options.kv = static_cast<KvStorage>(ours.kv);
  options.threads = ours.threads;
  options.context = ours.context;
  if (!std::isnan(ours.kv_bytes)) options.kv_bytes = static_cast<size_t>(whole_number<int64_t>(ours.kv_bytes, "kv_bytes"));
  if (!std::isnan(ours.reuse_prefixes)) options.reuse_prefixes = ours.reuse_prefixes != 0;
  set(options.isa, ours.isa);
  if (ours.compile_cache != nullptr) options.compile_cache.folder = ours.compile_cache;
  if (ours.variant != nullptr) options.variant = ours.variant;
  if (ours.ort_library != nullptr) options.ort_library = ours.ort_library;
  if (ours.cuda_library != nullptr) options.cuda_library = ours.cuda_library;
  options.device_index = ours.device_index;
  if (ours.log == nullptr) return options;
  options.log = [log = ours.log, user = ours.user](LogLevel level, std::string_view message) {
    log(user, static_cast<kvik_log_level>(level), std::string(message).c_str());
  };
  return options;
}

EngineOptions engine_options(const kvik_engine_options* theirs) {
  kvik_engine_options ours = default_engine_options();
  read_struct(theirs, ours, "kvik_engine_options");
  EngineOptions options;
  if (!std::isnan(ours.max_sequences)) options.max_sequences = whole_number<int>(ours.max_sequences, "max_sequences");
  if (!std::isnan(ours.max_queue)) options.max_queue = whole_number<int>(ours.max_queue, "max_queue");
  if (!std::isnan(ours.kv_bytes)) options.kv_bytes = static_cast<size_t>(whole_number<int64_t>(ours.kv_bytes, "kv_bytes"));
  if (!std::isnan(ours.max_step_ms)) options.max_step_ms = ours.max_step_ms;
  return options;
}

RequestOptions request_options(const kvik_request_options& ours) {
  RequestOptions options;
  set(options.user, ours.user_name);
  if (!std::isnan(ours.timeout_ms)) options.timeout = std::chrono::milliseconds(whole_number<int64_t>(ours.timeout_ms, "timeout_ms"));
  if (ours.same_prompt != nullptr) options.same_prompt = &ours.same_prompt->stream;
  if (ours.update != nullptr) options.on_update = [update = ours.update, user = ours.user] { update(user); };
  return options;
}

}  // namespace kvik::c

using namespace kvik::c;

void kvik_engine_options_init(kvik_engine_options* options, size_t size) { write_defaults(options, size, default_engine_options()); }

void kvik_request_options_init(kvik_request_options* options, size_t size) { write_defaults(options, size, default_request_options()); }

void kvik_load_options_init(kvik_load_options* options, size_t size) { write_defaults(options, size, default_load_options()); }

void kvik_sampling_init(kvik_sampling* sampling, size_t size) { write_defaults(sampling, size, default_sampling()); }

void kvik_generate_options_init(kvik_generate_options* options, size_t size) { write_defaults(options, size, default_generate_options()); }

void kvik_translate_options_init(kvik_translate_options* options, size_t size) {
  write_defaults(options, size, default_translate_options());
}

void kvik_transcribe_options_init(kvik_transcribe_options* options, size_t size) {
  write_defaults(options, size, default_transcribe_options());
}

void kvik_embed_options_init(kvik_embed_options* options, size_t size) { write_defaults(options, size, default_embed_options()); }
