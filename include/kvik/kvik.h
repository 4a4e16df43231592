#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/error.h"
#include "kvik/types.h"
#include "kvik/version.h"

// Kvik runs generative ONNX models with a key/value cache: the file you exported, unchanged.
//
//   kvik::Model model = kvik::Model::load("fable");
//   for (std::string_view piece : model.generate("Once upon a time", {.max_tokens = 64})) std::cout << piece << std::flush;
//
// Loading and wrong arguments throw kvik::Error; what happens every day (a full context, the end of a text) is a value.
// The library never prints, exits or aborts.
namespace kvik {

enum class BackendChoice { kAuto, kNative, kOrt, kReference };
enum class Device { kCpu, kCuda };
enum class Weights { kAuto, kF32, kF16, kQ8, kQ4 };  // kAuto: as stored
enum class KvStorage { kAuto, kF32, kF16, kQ8 };     // kAuto: f16 where the file keeps its cache in 16 bits, else f32

struct LoadOptions {
  BackendChoice backend = BackendChoice::kAuto;
  Device device = Device::kCpu;
  Weights weights = Weights::kAuto;    // of the native backend; others keep what the file has
  KvStorage kv = KvStorage::kAuto;     // of the native backend; others keep what the file has
  std::string isa = "auto";            // of the native backend: "scalar", "avx2", "avx512", … or the best of this machine
  std::vector<std::string> no_fuse;    // of the native backend: fusions to leave out, to compare
  int threads = 0;                     // 0: one for each core
  int context = 0;                     // positions a session may hold; 0: as many as the model has
  std::optional<std::string> variant;  // which precision of a folder with several: "fp16", "q4", … (the file name's suffix)
  std::filesystem::path ort_library;   // ONNX Runtime's shared library; empty: searched for
  std::function<void(LogLevel, std::string_view sentence)> log;  // what was chosen and why; any thread
};

enum class Finish { kStop, kLength, kCancelled };
std::string_view finish_name(Finish finish);  // "stop", "length", "cancelled"

// How the next token is chosen. What is not set here is as generation_config.json says, and greedy where that is silent.
struct SampleOptions {
  std::optional<double> temperature;  // 0: greedy
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<int> no_repeat_ngram_size;
  std::vector<std::pair<TokenId, double>> logit_bias;
  std::optional<uint64_t> seed;  // the same seed gives the same text on every machine; not set: another one each time
};

struct GenerateOptions {
  std::optional<int> max_tokens;  // new ones; not set: as the config says, else 256
  std::optional<double> temperature;
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<int> no_repeat_ngram_size;
  std::vector<std::pair<TokenId, double>> logit_bias;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;  // texts that end the answer and are not part of it
  std::vector<TokenId> stop_ids;  // beside the model's own end tokens
  bool ignore_eos = false;
  bool use_cache = true;                              // false: recompute everything at every step, to compare
  std::function<void(int done, int total)> progress;  // while a prompt is read
  std::function<bool()> cancelled;                    // asked between steps

  SampleOptions sampling() const;
};

// When a search that has as many finished targets as beams ends, as in Hugging Face.
enum class EarlyStopping {
  kFalse,  // when the best running beam, at its present length, scores below the worst of them
  kTrue,   // at once
  kNever,  // when no running beam can score above the worst of them at any length up to the largest
};

struct Translation;

// How translations are searched for. What is not set here is as generation_config.json says.
struct TranslateOptions {
  std::optional<int> beams;  // width of the search; 1: token by token
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::optional<int> num_return_sequences;  // hypotheses of each source; at most as many as beams, or as many as are drawn
  std::string language;                     // to translate into, as the model's files write it ("fr", "fra_Latn"), where it has several
  std::string source_language;              // of the texts, where the model has several
  std::optional<int> max_tokens;            // new ones; not set: as the config says, else 256
  std::optional<double> temperature;        // above 0 draws; beams are then not searched
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<int> no_repeat_ngram_size;
  std::vector<std::pair<TokenId, double>> logit_bias;
  std::optional<uint64_t> seed;   // a text draws the same whatever shares its batch
  std::vector<std::string> stop;  // texts that end a translation and are not part of it
  std::vector<TokenId> stop_ids;  // beside the model's own end tokens
  bool ignore_eos = false;
  std::optional<int> min_length;  // start tokens included
  std::optional<int> min_new_tokens;
  std::optional<int> encoder_no_repeat_ngram_size;
  std::optional<double> encoder_repetition_penalty;
  std::optional<TokenId> decoder_start_token_id;
  std::optional<TokenId> forced_bos_token_id, forced_eos_token_id;  // -1: none, whatever the config says
  std::optional<std::vector<TokenId>> suppress_tokens, begin_suppress_tokens;
  std::optional<std::vector<std::vector<TokenId>>> bad_words_ids;
  int batch = 16;         // sources that run together; those of like length, so that little is padded
  bool truncate = false;  // cut sources that are longer than the model's positions, with a warning; otherwise they are an error
  std::function<void(int done, int total)> progress;  // after each batch
  std::function<bool()> cancelled;                    // asked between steps; what is not done then finishes with kCancelled
  // Each translation in the order of the sources, as soon as it and all before it are known.
  std::function<void(size_t place, const Translation&)> translated;

  SampleOptions sampling() const;
};

struct Hypothesis {
  std::vector<TokenId> ids;  // without the start token, with the end token that stopped it
  std::string text;          // without the end token; empty where the model has no tokenizer
  float score = 0;           // sum of log-probabilities / length^length_penalty
  Finish finish = Finish::kStop;
};

// The best hypothesis for a source. A blank text has a blank one.
struct Translation : Hypothesis {
  std::vector<TokenId> source_ids;
  std::vector<Hypothesis> hypotheses;  // all that were asked for, best first
};

struct HeardWindow : Hypothesis {
  double start_s = 0;
  double end_s = 0;
  std::vector<Hypothesis> hypotheses;  // all that were asked for, best first
};

struct TranscribeOptions {
  std::string language;     // that is spoken ("de"); empty: as generation_config.json says, and detected where that is silent
  std::string task;         // "transcribe", or "translate" (into English); empty: as generation_config.json says
  TranslateOptions search;  // how the words are searched for, and when that is cancelled; what it says of sources is not heard
  int batch = 4;            // windows of a long sound that run together
  std::function<void(const HeardWindow& window, int total)> heard;  // each in order, as soon as it is known
};

// What was said in a sound, window by window.
struct Transcription {
  std::string text;                // of all windows; empty where the model has no tokenizer
  std::vector<TokenId> ids;        // of all windows, with their end tokens
  std::vector<TokenId> start_ids;  // what the decoder began with: start, language, task, as far as the model has them
  std::string language;            // among those; empty where the model has none
  Finish finish = Finish::kStop;   // kLength: a window had more to say; kCancelled: the windows are those that were heard before
  std::vector<HeardWindow> windows;
};

struct Metrics {
  double prefill_ms = 0;      // reading the prompt
  double first_token_ms = 0;  // from the start of generation to the first token
  double decode_ms = 0;       // everything after the first token
  int prompt_tokens = 0;      // computed
  int reused_tokens = 0;      // of the prompt that were in the cache already
  int generated_tokens = 0;
  size_t cache_bytes = 0;
  double prefill_tokens_per_s() const { return prefill_ms > 0 ? prompt_tokens * 1e3 / prefill_ms : 0; }
  double decode_tokens_per_s() const { return decode_ms > 0 ? (generated_tokens - 1) * 1e3 / decode_ms : 0; }
};

enum class Appended { kDone, kContextFull, kCancelled };

class Model;

// One context of a model. Independent of every other; used by one thread at a time. Movable, and copied by fork().
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Reads tokens. All of them or, in any other case than kDone, none: nothing is lost.
  Appended append(std::span<const TokenId> tokens);
  Appended append(TokenId token) { return append(std::span<const TokenId>(&token, 1)); }

  // Of the last position; valid until the session changes. Throws when nothing was appended.
  std::span<const float> logits();

  // Chooses a next token; does not append it.
  TokenId sample(const SampleOptions& options = {});

  // A second session with the same past; neither sees what the other does from now on.
  Session fork() const;

  // As if everything from position `length` on had never been. Throws for models that cannot (recurrent ones), except to 0.
  void rewind(int length);
  void reset() { rewind(0); }

  // Writes everything that Model::load_session() needs to go on from here as if the session had never left, also on another machine:
  // whole or not at all. Throws Error(kIo).
  void save(const std::filesystem::path& file) const;

  int length() const;
  int capacity() const;  // positions at most; 0: no limit is known
  std::span<const TokenId> tokens() const;
  Metrics metrics() const;

 private:
  friend class Model;
  friend class Generation;
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Text as it is generated. Iterate once: each piece is whole UTF-8 characters and holds until the next.
class Generation {
 public:
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = const std::string_view&;

    reference operator*() const { return piece_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return generation_ == nullptr; }

   private:
    friend class Generation;
    explicit Iterator(Generation* generation) : generation_(generation) { ++*this; }
    Generation* generation_;
    std::string_view piece_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

  // The next piece, possibly empty while a character is incomplete; nothing at the end.
  std::optional<std::string_view> next();

  std::string text();  // all that is left
  const std::vector<TokenId>& prompt_ids() const;
  const std::vector<TokenId>& ids() const;  // the new ones so far, with the end token that stopped it
  Finish finish() const;                    // after the end
  Metrics metrics() const;

 private:
  friend class Model;
  struct State;
  explicit Generation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A loaded model; cheap to copy, shared by threads.
class Model {
 public:
  // A folder, an .onnx file, or the name of a model on the search path ($KVIK_MODELS, models/ of the installation, the user's data folder).
  static Model load(const std::string& path_or_name, const LoadOptions& options = {});

  Generation generate(std::string_view prompt, const GenerateOptions& options = {}) const;
  Generation generate(std::span<const TokenId> prompt, const GenerateOptions& options = {}) const;
  // Continues a session: what it holds already is not computed again where the prompt begins with it.
  Generation generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options = {}) const;

  Session session() const;
  // What Session::save() wrote, of this model loaded with the same backend, weights and cache storage. Throws for a file that is damaged or
  // belongs to another model.
  Session load_session(const std::filesystem::path& file) const;
  // One run for many sessions: a token for each. Gives the logits of each, in order.
  std::vector<std::vector<float>> step(std::span<Session> sessions, std::span<const TokenId> tokens) const;

  // Of encoder-decoders: translations in the order of the sources, each the same as alone. Sources are checked before anything runs.
  std::vector<Translation> translate(std::span<const std::string> texts, const TranslateOptions& options = {}) const;
  std::vector<Translation> translate(std::span<const std::vector<TokenId>> sources, const TranslateOptions& options = {}) const;
  std::vector<Translation> translate(std::initializer_list<std::string> texts, const TranslateOptions& options = {}) const {
    return translate(std::span(texts.begin(), texts.size()), options);
  }
  Translation translate(std::string_view text, const TranslateOptions& options = {}) const;
  Translation translate(std::span<const TokenId> source, const TranslateOptions& options = {}) const;

  // Of speech models: one channel, full scale 1, any length and rate (samples a second).
  Transcription transcribe(std::span<const float> samples, int rate, const TranscribeOptions& options = {}) const;

  bool has_tokenizer() const;
  std::vector<TokenId> tokenize(std::string_view text, bool add_special = true) const;
  std::string detokenize(std::span<const TokenId> ids, bool skip_special = true) const;
  bool has_chat_template() const;
  // `messages_json`: [{"role": …, "content": …}, …], rendered with the model's chat template.
  std::string apply_chat_template(std::string_view messages_json, bool add_generation_prompt = true) const;

  int vocab_size() const;
  int max_positions() const;    // 0: unknown
  std::string backend() const;  // "native", "ort", "reference"
  std::string device() const;
  size_t weights_bytes() const;
  double load_ms() const;
  std::vector<TokenId> eos_ids() const;
  std::vector<TokenId> start_ids() const;  // what a text without a prompt begins with; empty where the model has no such token

 private:
  friend class Session;
  friend class Generation;
  friend struct ModelAccess;  // the command line sees more
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  Generation begin(Session* session, std::span<const TokenId> prompt, const GenerateOptions& options) const;
  std::shared_ptr<const State> state_;
};

}  // namespace kvik
