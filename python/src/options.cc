#include "options.h"

#include "bindings.h"
#include "keywords.h"
#include "kvik/compile_cache.h"
#include "model.h"

namespace kvik::python {
namespace {

// As in Hugging Face: True, False or "never".
void take_early_stopping(Keywords& keywords, std::optional<EarlyStopping>& target) {
  const nb::object value = keywords.take("early_stopping");
  std::string word;
  if (value.is_none()) return;
  if (PyBool_Check(value.ptr())) {
    target = value.ptr() == Py_True ? EarlyStopping::kTrue : EarlyStopping::kFalse;
  } else if (nb::try_cast(value, word) && word == "never") {
    target = EarlyStopping::kNever;
  } else {
    throw nb::type_error("early_stopping must be True, False or 'never'");
  }
}

// What generations and translations have in common.
template <class Options>
void take_decoding(Keywords& keywords, Options& options) {
  keywords.take({"max_tokens", "max_new_tokens"}, options.max_tokens);
  keywords.take_sampling(options.sampling);
  keywords.take({"beams", "num_beams"}, options.beams);
  keywords.take("length_penalty", options.length_penalty);
  take_early_stopping(keywords, options.early_stopping);
  keywords.add_known({"do_sample", "max_length", "eos_token_id"});
  keywords.take({"stop", "stop_strings"}, options.stop);
  keywords.take("stop_ids", options.stop_ids);
  keywords.take("ignore_eos", options.ignore_eos);
}

template <class Options>
void watch(Options& options, const Call& call) {
  options.progress = call.progress();
  options.cancelled = call.cancelled();
}

TranslateOptions take_translation(Keywords& keywords, const Call& call) {
  TranslateOptions options;
  take_decoding(keywords, options);
  keywords.take("num_return_sequences", options.num_return_sequences);
  keywords.take("decoder_start_token_id", options.decoder_start_token_id);
  watch(options, call);
  return options;
}

// One thread writes into Python's log at a time; messages below the level are not even formatted into Python objects.
std::function<void(LogLevel, std::string_view)> log_to(nb::object function, int lowest) {
  struct Log {
    nb::object function;
    ~Log() {
      const AcquiredGil acquired;
      function.reset();
    }
  };
  return [log = std::make_shared<Log>(std::move(function)), lowest](LogLevel level, std::string_view message) {
    constexpr int kPythonLevels[] = {10, 20, 30, 40};
    const int python_level = kPythonLevels[static_cast<int>(level)];
    if (python_level < lowest) return;
    const AcquiredGil acquired;
    try {
      log->function(python_level, text_of(message));
    } catch (nb::python_error& error) { error.discard_as_unraisable("a log handler of kvik"); }
  };
}

const char* type_of(const SamplingField& field) {
  return std::visit(
      []<class T>(std::optional<T> Sampling::*) {
        if constexpr (std::is_same_v<T, bool>) return "bool";
        if constexpr (std::is_integral_v<T>) return "int";
        if constexpr (std::is_floating_point_v<T>) return "float";
        if constexpr (std::is_same_v<T, std::vector<TokenId>>) return "TokenIds";
        if constexpr (std::is_same_v<T, std::vector<std::vector<TokenId>>>) return "Sequence[TokenIds]";
        if constexpr (std::is_same_v<T, std::vector<SequenceBias>>) return "Mapping[tuple[int, ...], float]";
        if constexpr (std::is_same_v<T, std::vector<std::pair<TokenId, double>>>) return "Mapping[int, float]";
        return "tuple[int, float]";
      },
      field.member);
}

}  // namespace

LoadOptions load_options(const nb::kwargs& given) {
  Keywords keywords("Model", given);
  LoadOptions options;
  keywords.take_choice<BackendChoice>("backend", options.backend,
                                      {{"auto", BackendChoice::kAuto},
                                       {"native", BackendChoice::kNative},
                                       {"ort", BackendChoice::kOrt},
                                       {"reference", BackendChoice::kReference}});
  keywords.take_choice<Device>("device", options.device, {{"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"cuda", Device::kCuda}});
  keywords.take("device_index", options.device_index);
  keywords.take_choice<Weights>(
      "weights", options.weights,
      {{"auto", Weights::kAuto}, {"f32", Weights::kF32}, {"f16", Weights::kF16}, {"q8", Weights::kQ8}, {"q4", Weights::kQ4}});
  keywords.take_choice<KvStorage>("kv", options.kv,
                                  {{"auto", KvStorage::kAuto}, {"f32", KvStorage::kF32}, {"f16", KvStorage::kF16}, {"q8", KvStorage::kQ8}});
  keywords.take("isa", options.isa);
  keywords.take("no_fuse", options.no_fuse);
  keywords.take("threads", options.threads);
  keywords.take("context", options.context);
  keywords.take("kv_bytes", options.kv_bytes);
  keywords.take("reuse_prefixes", options.reuse_prefixes);
  keywords.take("variant", options.variant);
  keywords.take("ort_library", options.ort_library);
  keywords.take("cuda_library", options.cuda_library);
  bool compile_cache = true;
  keywords.take("compile_cache", compile_cache);
  if (compile_cache) options.compile_cache = default_compile_cache();
  int lowest = 30;
  keywords.take("log_level", lowest);
  if (nb::object log = keywords.take("log"); !log.is_none()) options.log = log_to(std::move(log), lowest);
  keywords.finish();
  return options;
}

GenerateOptions generate_options(const nb::kwargs& given, const Call& call) {
  Keywords keywords("generate", given);
  GenerateOptions options;
  take_decoding(keywords, options);
  keywords.take("logprobs", options.logprobs);
  keywords.take("use_cache", options.use_cache);
  keywords.take_choice<Speculate>("speculate", options.speculate, {{"off", Speculate::kOff}, {"lookup", Speculate::kLookup}});
  if (const nb::object draft = keywords.take("draft"); !draft.is_none())
    options.draft = std::make_shared<const Model>(nb::cast<const ModelHandle&>(draft).model());
  if (const nb::object constraint = keywords.take("constraint"); !constraint.is_none())
    options.constraint = nb::cast<const Constraint&>(constraint);
  keywords.add_known({"json_schema", "regex", "grammar", "assistant_model"});
  keywords.finish();
  watch(options, call);
  return options;
}

TranslateOptions translate_options(const nb::kwargs& given, const Call& call) {
  Keywords keywords("translate", given);
  TranslateOptions options = take_translation(keywords, call);
  keywords.take({"language", "tgt_lang"}, options.language);
  keywords.take({"source_language", "src_lang"}, options.source_language);
  keywords.take({"batch", "batch_size"}, options.batch);
  keywords.take({"truncate", "truncation"}, options.truncate);
  keywords.take({"scores", "output_scores"}, options.scores);
  keywords.finish();
  return options;
}

TranscribeOptions transcribe_options(const nb::kwargs& given, const Call& call) {
  Keywords keywords("transcribe", given);
  TranscribeOptions options;
  options.decoding = take_translation(keywords, call);
  options.decoding.progress = nullptr;  // windows are what users can count
  keywords.take("language", options.language);
  keywords.take("task", options.task);
  keywords.take({"timestamps", "return_timestamps"}, options.timestamps);
  keywords.take({"batch", "batch_size"}, options.batch);
  keywords.finish();
  if (const auto progress = call.progress()) {
    const auto n_done = std::make_shared<int>(0);
    options.on_segment = [=](const Segment&, int total) { progress(++*n_done, total); };
  }
  return options;
}

EmbedOptions embed_options(const nb::kwargs& given, const Call& call) {
  Keywords keywords("embed", given);
  EmbedOptions options;
  keywords.take("pooling", options.pooling);
  keywords.take("normalize", options.normalize);
  keywords.take({"prompt", "prompt_name"}, options.prompt);
  keywords.take({"dimensions", "truncate_dim"}, options.dimensions);
  keywords.take({"truncate", "truncation"}, options.truncate);
  keywords.finish();
  watch(options, call);
  return options;
}

ScoreOptions score_options(const nb::kwargs& given, const Call& call) {
  Keywords keywords("score", given);
  ScoreOptions options;
  keywords.take("window", options.window);
  keywords.finish();
  watch(options, call);
  return options;
}

EngineOptions engine_options(const nb::kwargs& given) {
  Keywords keywords("Engine", given);
  EngineOptions options;
  keywords.take("max_sequences", options.max_sequences);
  keywords.take("max_queue", options.max_queue);
  keywords.take("kv_bytes", options.kv_bytes);
  keywords.take("max_step_ms", options.max_step_ms);
  keywords.finish();
  return options;
}

Sampling sampling_options(const nb::kwargs& given) {
  Keywords keywords("sample", given);
  Sampling sampling;
  keywords.take_sampling(sampling);
  keywords.finish();
  return sampling;
}

void bind_options(nb::module_& module) {
  module.def(
      "check_generate_options", [](const nb::kwargs& options) { generate_options(options, Call()); },
      "Raises TypeError for unknown names and for values of another type; ranges are checked when a generation begins.");
  module.def(
      "sampling_fields",
      [] {
        nb::list fields;
        for (const SamplingField& field : sampling_fields())
          fields.append(nb::make_tuple(text_of(field.name), type_of(field), text_of(field.range), text_of(field.help)));
        return fields;
      },
      nb::sig("def sampling_fields() -> list[tuple[str, str, str, str]]"), "Name, type, range and help of every sampling option.");
}

}  // namespace kvik::python
