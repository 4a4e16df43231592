#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvik/constraint.h"
#include "kvik/types.h"

// Options of kvik.h. Every field has a default; set only the fields that you need: {.max_tokens = 64, .sampling = {.temperature = 0.8}}.
namespace kvik {

// Why a generation ended: an end token or a stop text; max_tokens or a full context; the caller's `cancelled`.
enum class Finish { kStop, kLength, kCancelled };
std::string_view finish_name(Finish finish);  // "stop", "length", "cancelled"

// If the status is not kDone, nothing was appended. kNoMemory: LoadOptions::kv_bytes are in use by other sessions; try again after one of
// them has ended or has been rewound.
enum class [[nodiscard]] AppendStatus{kDone, kContextFull, kCancelled, kNoMemory};
// For messages about kNoMemory; errors with the same cause use it too.
inline constexpr const char* kNoMemoryMessage =
    "the memory of the KV cache (kv_bytes, --kv-bytes) is in use; end a session and try again, or raise the limit";

// When a beam search that has as many finished hypotheses as beams ends, as in Hugging Face.
enum class EarlyStopping {
  kFalse,  // when the best running beam, at its current length, scores below the worst of them
  kTrue,   // at once
  kNever,  // when no running beam can score above the worst of them at any length up to the limit
};

enum class BackendChoice { kAuto, kNative, kOrt, kReference };
enum class Device { kCpu, kCuda, kAuto };            // kAuto: CUDA if there is a usable GPU, else the CPU
enum class Weights { kAuto, kF32, kF16, kQ8, kQ4 };  // kAuto: as stored
enum class KvStorage { kAuto, kF32, kF16, kQ8 };     // kAuto: f16 if weights are q8 or q4 or the file's cache has 16 bits, else f32

class Profile;

// A folder for compiled plans and packed weights of the native backend, so that the next start maps them instead of computing them, and
// processes that run the same model share their memory. Its files can be deleted at any time. See docs/compile-cache.md.
struct CompileCache {
  std::filesystem::path folder;                  // created if missing; empty: no cache
  uint64_t max_bytes = 20'000'000'000;           // of all files; the least recently used are deleted first
  uint64_t min_model_bytes = uint64_t{4} << 20;  // models with smaller packed weights are not cached
};

struct LoadOptions {
  BackendChoice backend = BackendChoice::kAuto;
  Device device = Device::kCpu;      // CUDA falls back to the CPU with a warning
  int device_index = 0;              // which GPU, if there are several
  Weights weights = Weights::kAuto;  // native backend only; others use the formats of the file
  KvStorage kv = KvStorage::kAuto;   // native backend only; others use the formats of the file
  std::string isa = "auto";          // native backend only: "scalar", "avx2", "avx512", "amx", …; "auto": the fastest that works here
  std::vector<std::string> no_fuse;  // native backend only: names of fusions to turn off
  int threads = 0;                   // 0: one per core, and steps of few tokens use fewer if that is faster
  int context = 0;                   // maximum positions of a session; 0: the model's maximum
  size_t kv_bytes = 0;               // native backend only: memory limit of the KV cache, for all sessions and cached prefixes; 0: no limit
  bool reuse_prefixes = true;        // native backend only: do not recompute a prefix that any session of the model has computed before
  std::optional<std::string> variant;  // which precision, if a folder has several: "fp16", "q4", … (suffix of the file name)
  std::shared_ptr<Profile> profile;    // kvik/profile.h: collects the time of each kind of operation
  CompileCache compile_cache;          // native backend only; off unless a folder is set. default_compile_cache() is the user's cache
  std::filesystem::path cuda_library;  // libkvik-cuda.so; empty: searched for
  std::filesystem::path ort_library;   // ONNX Runtime's shared library; empty: searched for
  std::function<void(LogLevel, std::string_view message)> log;  // called from any thread
};

// Added to the logit of the last id if the sequence ends with the ids before it.
struct SequenceBias {
  std::vector<TokenId> ids;
  double bias = 0.0;
};

// For the n-th token after the first `start` generated ones, the logit of an end token is increased by |logit| * (factor^n - 1).
struct DecayLengthPenalty {
  int start = 0;
  double factor = 1.0;
};

// How the next token is chosen. Names and meanings are those of Hugging Face's GenerationConfig. An option that is not set here is taken
// from generation_config.json, and has no effect if it is not set there either. sampling_fields() lists the valid ranges.
struct Sampling {
  std::optional<double> temperature;  // 0: greedy, and top_k to eta_cutoff have no effect
  std::optional<int> top_k;           // keep the k largest logits; 0: all
  std::optional<double> top_p;        // keep the smallest set of most likely tokens whose probabilities add up to p
  std::optional<double> min_p;        // keep tokens that are at least p times as likely as the most likely one
  std::optional<double> typical_p;    // keep tokens whose surprise is closest to the expected, up to this mass
  std::optional<double> epsilon_cutoff;
  std::optional<double> eta_cutoff;
  std::optional<double> repetition_penalty;                        // applied to tokens of the prompt and generated tokens
  std::optional<double> presence_penalty;                          // applied once to each generated token
  std::optional<double> frequency_penalty;                         // applied to generated tokens, once per occurrence
  std::optional<double> encoder_repetition_penalty;                // above 1: tokens of the source become likelier
  std::optional<int> no_repeat_ngram_size;                         // no n tokens in a row occur twice, prompt included; 0: off
  std::optional<int> encoder_no_repeat_ngram_size;                 // no n tokens in a row of the source are generated; 0: off
  std::optional<int> min_length;                                   // no end token before this length, prompt included
  std::optional<int> min_new_tokens;                               // no end token before this many generated ones
  std::optional<TokenId> forced_bos_token_id;                      // the token after the decoder's start token; -1: none
  std::optional<std::vector<TokenId>> forced_eos_token_id;         // one of them is the last token when the length limit is reached
  std::optional<std::vector<TokenId>> suppress_tokens;             // never generated
  std::optional<std::vector<TokenId>> begin_suppress_tokens;       // not generated first
  std::optional<std::vector<std::vector<TokenId>>> bad_words_ids;  // sequences that are never generated
  std::optional<std::vector<SequenceBias>> sequence_bias;
  std::optional<std::vector<std::pair<TokenId, double>>> logit_bias;  // as in OpenAI's API; overrides sequence_bias for the same id
  std::optional<DecayLengthPenalty> exponential_decay_length_penalty;
  std::optional<bool> remove_invalid_values;  // NaN becomes 0, infinities the largest finite numbers
  std::optional<bool> renormalize_logits;     // beams only: log-softmax again after penalties
  std::optional<uint64_t> seed;               // the same seed gives the same text on every machine; not set: a new one each time
};

// Describes one option of Sampling, for config files, the command line, the C API and range checks.
struct SamplingField {
  using Member =
      std::variant<std::optional<double> Sampling::*, std::optional<int> Sampling::*, std::optional<bool> Sampling::*,
                   std::optional<uint64_t> Sampling::*, std::optional<std::vector<TokenId>> Sampling::*,
                   std::optional<std::vector<std::vector<TokenId>>> Sampling::*, std::optional<std::vector<SequenceBias>> Sampling::*,
                   std::optional<std::vector<std::pair<TokenId, double>>> Sampling::*, std::optional<DecayLengthPenalty> Sampling::*>;
  std::string_view name;  // in generation_config.json; the flag of the command line has '-' for '_'
  Member member;
  double no_effect = 0;  // the value that changes nothing
  double lowest = 0;     // for numbers; inclusive
  double highest = 0;
  std::string_view range;       // the same in words
  std::string_view value_name;  // in help texts
  std::string_view help;
  bool sampling_only = false;  // ignored in files that do not set do_sample
};
std::span<const SamplingField> sampling_fields();

// Where proposals for the next tokens come from. Proposals are verified in one run; the output is the same as without them.
enum class Speculate {
  kOff,
  kLookup,  // continuations of the last tokens, found in the context and in what other sessions have computed
};

struct TokenLogprob {
  TokenId id = 0;
  double logprob = 0;  // of the model's own distribution, before penalties, temperature and filters
};

struct GeneratedToken : TokenLogprob {
  std::vector<TokenLogprob> top;  // the GenerateOptions::logprobs most likely tokens, most likely first
};

class Model;

struct GenerateOptions {
  std::optional<int> max_tokens;  // new tokens; not set: as in generation_config.json, else 256
  Sampling sampling;
  std::optional<int> beams;              // width of the search; 1: token by token. With beams the text arrives as one piece at the end
  std::optional<double> length_penalty;  // of beams
  std::optional<EarlyStopping> early_stopping;
  std::vector<std::string> stop;  // texts that end the answer and are not part of it
  std::vector<TokenId> stop_ids;  // in addition to the model's own end tokens
  bool ignore_eos = false;
  std::optional<int> logprobs;  // Engine only: number of most likely tokens to report per token, at most 1024; 0: only the chosen token
  std::optional<Constraint> constraint;  // format of the text; not set: anything
  Speculate speculate = Speculate::kOff;
  std::shared_ptr<const Model> draft;                 // a smaller model with the same vocabulary that proposes tokens; null: none
  bool use_cache = true;                              // false: recompute everything at every step, for comparison
  std::function<void(int done, int total)> progress;  // of the prompt, in tokens
  std::function<bool()> cancelled;                    // polled between steps
};

struct AppendOptions {
  std::function<void(int done, int total)> progress;  // in tokens
  std::function<bool()> cancelled;                    // polled between runs; the status is then kCancelled
};

struct Translation;

// Options that are not set are taken from generation_config.json.
struct TranslateOptions {
  std::optional<int> beams;  // width of the search; 1: token by token
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::optional<int> num_return_sequences;  // hypotheses per source; with beams at most `beams`, when sampling at most 1024
  std::string language;                     // target language, as in the model's files ("fr", "fra_Latn"), if it has several
  std::string source_language;              // if the model has several
  std::optional<int> max_tokens;            // new tokens; not set: as in generation_config.json, else 256
  Sampling sampling;                        // a temperature above 0 samples instead of searching with beams
  std::vector<std::string> stop;            // texts that end a translation and are not part of it
  std::vector<TokenId> stop_ids;            // in addition to the model's own end tokens
  bool ignore_eos = false;
  std::optional<TokenId> decoder_start_token_id;
  size_t first_index = 0;  // index of the first source, if earlier calls had some: its random numbers depend on seed and index
  int batch = 16;          // sources per run; sources of similar length are batched together
  bool truncate = false;   // truncate sources that exceed the model's positions, with a warning; otherwise they are an error
  bool scores = true;      // false: token by token, Hypothesis::score may stay 0, which saves a pass over the logits
  std::function<void(int done, int total)> progress;                     // in sources
  std::function<bool()> cancelled;                                       // polled between steps; unfinished results have Finish::kCancelled
  std::function<void(size_t index, const Translation&)> on_translation;  // in the order of the sources, as early as possible
};

struct Segment;

struct TranscribeOptions {
  std::string language;       // spoken language ("de"); empty: as in generation_config.json, else detected
  std::string task;           // "transcribe" or "translate" (into English); empty: as in generation_config.json
  bool timestamps = false;    // generate timestamp tokens; a window then begins where the last segment ended
  TranslateOptions decoding;  // `language`, `source_language`, `batch` and `truncate` are ignored
  int batch = 4;              // audio windows per run; with timestamps always 1
  std::function<void(const Segment&, int total)> on_segment;  // in order, as early as possible
};

// Options that are not set are taken from the model's files (modules.json and those it names, config_sentence_transformers.json).
struct EmbedOptions {
  // How hidden states are pooled into one vector: "cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken", several joined by
  // '+', or "graph": the vector that the graph computes. Empty: as the model's files specify, else "graph" if possible, else an error.
  std::string pooling;
  std::optional<bool> normalize;      // to length 1; not set: as the model's files specify, else true unless the graph pools
  std::optional<std::string> prompt;  // name of a prompt to put before each text; "": none; not set: the model's default
  int dimensions = 0;                 // keep only the first N (Matryoshka); 0: all
  bool truncate = true;               // truncate texts that exceed the model's limit, with a warning; otherwise they are an error
  std::function<void(int done, int total)> progress;  // in texts
  std::function<bool()> cancelled;                    // polled between runs; texts that were not computed have no values
};

struct ScoreOptions {
  int window = 0;  // tokens per window; each window starts with an empty context; 0: 512, or the context if it is smaller
  std::function<void(int done, int total)> progress;  // in tokens
  std::function<bool()> cancelled;                    // polled between runs; the result is then partial
};

}  // namespace kvik
