#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/error.h"
#include "kvik/options.h"
#include "kvik/types.h"
#include "kvik/version.h"

namespace kvik::engine {
class Tree;
}

// Kvik runs generative ONNX models with a key/value cache: the file you exported, unchanged.
//
//   kvik::Model model = kvik::Model::load("fable");
//   for (std::string_view piece : model.generate("Once upon a time", {.max_tokens = 64})) std::cout << piece << std::flush;
//
// Errors: loading and bad arguments throw kvik::Error; expected outcomes (a full context, the end of a text) are values. The library
// never prints, exits or aborts.
// Blocking: these block until they are done: load; and the functions that run the model on the calling thread and the model's worker
// threads: generate (computes the prompt), Generation::next and text, append, append_tree, step, embed, hidden_states, translate,
// transcribe, score, and after a rewind also logits, shared_logits, sample and save, which recompute the last position.
// Threads: a Model may be used by any number of threads; a Session or a Generation by one at a time. A model executes one run at a time:
// calls from several threads wait in order of arrival, and calls that wait at the same time share the next run (native backend; results
// are the same as alone).
// Lifetime: sessions, generations and results keep their model alive, so handles may be destroyed in any order. A moved-from object may
// only be assigned to or destroyed; passing one to step() throws.
namespace kvik {

struct Hypothesis {
  std::vector<TokenId> ids;  // without the start token, with the end token that stopped it
  std::string text;          // without the end token; empty if the model has no tokenizer
  float score = 0;           // sum of log-probabilities / length^length_penalty
  Finish finish = Finish::kStop;
};

// The best hypothesis for one source. The translation of a blank text is blank.
struct Translation : Hypothesis {
  std::vector<TokenId> source_ids;
  std::vector<Hypothesis> hypotheses;  // num_return_sequences of them, best first
};

// The text between two timestamps of a recording.
struct TimedText {
  double start_s = 0;
  double end_s = 0;
  std::string text;          // empty if the model has no tokenizer
  std::vector<TokenId> ids;  // including the timestamp tokens around it
};

// One window of a recording.
struct Segment : Hypothesis {
  double start_s = 0;
  double end_s = 0;
  std::vector<TimedText> timed;        // with timestamps: this window's part of Transcription::timed
  std::vector<Hypothesis> hypotheses;  // num_return_sequences of them, best first
};

struct Transcription {
  std::string text;                // of all segments; empty if the model has no tokenizer
  std::vector<TokenId> ids;        // of all segments, with their end tokens
  std::vector<TokenId> start_ids;  // the decoder's start tokens: start, language, task, if the model has them
  std::string language;            // empty if the model has no languages
  Finish finish = Finish::kStop;   // kLength: a segment was cut off; kCancelled: only the segments before the cancellation
  std::vector<Segment> segments;
  std::vector<TimedText> timed;  // with timestamps, in order; `text` and `ids` are then made from these
};

struct Score {
  std::vector<double> logprobs;  // natural logarithms, of every token but the first of each window
  double sum_logprob = 0;
  int window = 0;
  Finish finish = Finish::kStop;  // kCancelled: only the tokens before the cancellation are scored
  double perplexity() const;      // exp of the mean of -logprob
};

// The vector of one text.
struct Embedding {
  std::vector<float> values;
  int tokens = 0;  // computed tokens, including prompt and special tokens, after truncation
};

// One row per token of a text: [tokens, size].
struct HiddenStates {
  int tokens = 0;
  int size = 0;
  std::shared_ptr<const float[]> values;
};

// Non-text input of an encoder: an array in row-major order.
struct Features {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// Reads a NumPy file (.npy). Throws Error if it is malformed.
Features read_npy_features(const std::filesystem::path& file);

// Encoder-decoder models: counts how often sources were computed; 1 per source in each if sources are reused correctly.
struct SourceWork {
  int64_t encoded = 0;          // sources that went through the encoder
  int64_t cross_projected = 0;  // sources whose cross-attention keys and values were computed
};

struct Metrics {
  double prefill_ms = 0;      // computing prompts
  double first_token_ms = 0;  // from the start of a generation to its first token
  double decode_ms = 0;       // decode steps: tokens after the first of a generation, and single tokens appended to a session
  int prompt_tokens = 0;      // computed in prefill_ms
  int reused_tokens = 0;      // tokens of the prompt that were already in the cache
  int decode_tokens = 0;      // computed in decode_ms
  int generated_tokens = 0;
  int decode_runs = 0;      // runs of the model for decode_tokens; speculation needs fewer
  int proposed_tokens = 0;  // by speculation
  int accepted_tokens = 0;  // of the proposed tokens
  size_t cache_bytes = 0;
  double mask_ms = 0;  // time spent finding the tokens that a constraint allows
  double prefill_tokens_per_s() const { return prefill_ms > 0 ? prompt_tokens * 1e3 / prefill_ms : 0; }
  double decode_tokens_per_s() const { return decode_ms > 0 ? decode_tokens * 1e3 / decode_ms : 0; }
  double tokens_per_run() const { return decode_runs > 0 ? static_cast<double>(decode_tokens) / decode_runs : 0; }
};

// Memory use of a model's KV cache, and how much computation it saved.
struct CacheUse {
  size_t used_bytes = 0;         // pages of sessions and of cached prefixes; shared pages count once
  size_t prefix_bytes = 0;       // the part of used_bytes that no session uses: evicted if memory is needed
  size_t allocated_bytes = 0;    // from the operating system
  size_t limit_bytes = 0;        // LoadOptions::kv_bytes; 0: none
  int64_t reused_positions = 0;  // found in the cache instead of computed, since the model was loaded
  int64_t evicted_positions = 0;
};

// The result of Session::append_tree(): logits of every node, valid until the session changes or is destroyed.
class [[nodiscard]] TreeLogits {
 public:
  AppendStatus status() const { return status_; }
  int size() const;  // 0 unless the status is kDone
  // Logits after the node's token. Throws if there is no such node or the status is not kDone.
  std::span<const float> operator[](int node) const;

 private:
  friend class Session;
  AppendStatus status_ = AppendStatus::kDone;
  const engine::Tree* tree_ = nullptr;
};

// One context of a model, independent of all others. Used by one thread at a time.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Computes tokens and appends them: all of them, or none if the status is not kDone. Throws if an id is outside the vocabulary.
  AppendStatus append(std::span<const TokenId> tokens);
  AppendStatus append(TokenId token) { return append(std::span<const TokenId>(&token, 1)); }
  AppendStatus append(std::span<const TokenId> tokens, const AppendOptions& options);

  // Computes many continuations in one run: node i is tokens[i] after node parents[i] < i, or after the session's own tokens if that is -1,
  // and attends only to its ancestors. The session does not change until keep(). Throws if the backend cannot do this exactly (other
  // backends than "native", recurrent state), and if an argument is out of range.
  TreeLogits append_tree(std::span<const TokenId> tokens, std::span<const int> parents);
  // Appends the path to a node of the last append_tree() without recomputing it. At most once per tree, and before any other change.
  void keep(int node);

  // Logits of the last position: [vocab_size], valid until the session changes or is destroyed. Throws if the session is empty.
  std::span<const float> logits();
  // The same, without a copy, but valid as long as the returned pointer lives, whatever the session does. With a node: the logits after
  // that node of the last append_tree().
  std::shared_ptr<const float[]> shared_logits();
  std::shared_ptr<const float[]> shared_logits(int node) const;

  // Chooses a next token without appending it.
  TokenId sample(const Sampling& sampling = {});

  // A second session with the same past; takes microseconds and shares memory. Later changes of one do not affect the other.
  Session fork() const;

  // As if everything from position `length` on had never been appended. Throws for models that cannot be rewound (recurrent state),
  // except to 0.
  void rewind(int length);
  void reset() { rewind(0); }

  // Writes a file from which Model::load_session() continues, even on another machine. Written atomically. Throws Error(kIo).
  void save(const std::filesystem::path& file) const;

  int length() const;
  int capacity() const;  // maximum number of positions; 0: unknown
  std::span<const TokenId> tokens() const;
  Metrics metrics() const;

 private:
  friend class Model;
  friend class Generation;
  struct State;
  explicit Session(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // shared with generations that continue the session
};

// Text as it is generated. Iterate once; each piece consists of whole UTF-8 characters and is valid until the next one. Used by one thread
// at a time.
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

  // Runs a step and returns the next piece: empty while a character or a possible stop text is incomplete, nullopt at the end. Throws if
  // the generation continues a session that was changed in between.
  std::optional<std::string_view> next();

  std::string text();  // generates to the end; returns the text that has not been read yet
  const std::vector<TokenId>& prompt_ids() const;
  const std::vector<TokenId>& ids() const;  // generated so far, including the end token that stopped it
  Finish finish() const;                    // after the end
  Metrics metrics() const;

 private:
  friend class Model;
  struct State;
  explicit Generation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A loaded model: cheap to copy, may be used by any number of threads.
class Model {
 public:
  // A folder, an .onnx file, the name of a model on the search path ($KVIK_MODELS, models/ of the installation, the user's data folder), or
  // the name of a repository in the hub cache ($HF_HUB_CACHE, $HF_HOME): "ORG/NAME", or "NAME" if it is unique. Throws Error.
  static Model load(const std::string& path_or_name, const LoadOptions& options = {});

  Generation generate(std::string_view prompt, const GenerateOptions& options = {}) const;
  Generation generate(std::span<const TokenId> prompt, const GenerateOptions& options = {}) const;
  // Continues a session: tokens at the beginning of the prompt that are already in the session are not recomputed. Afterward the session
  // contains the prompt and, without beams, the generated tokens except the last one.
  Generation generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options = {}) const;

  Session session() const;
  // Reads a file of Session::save() of the same model, loaded with the same backend, weights format and cache format. Throws for any other
  // file.
  Session load_session(const std::filesystem::path& file) const;
  // Loads such a file as a prefix for new sessions to reuse; it is never evicted. Returns its number of tokens.
  int load_prefix(const std::filesystem::path& file) const;
  // Appends one token to each of several different sessions in one run: to all of them or, if the status is not kDone, to none.
  AppendStatus step(std::span<Session* const> sessions, std::span<const TokenId> tokens) const;

  // Log-probability of every token given those before it.
  Score score(std::span<const TokenId> ids, const ScoreOptions& options = {}) const;

  // Embedding models: text encoders, and decoders that output hidden states. Results are in the order of the texts, and each is the same as
  // alone (native backend: the same bits). All texts are checked before anything runs. Ids are used unchanged, without a prompt. Throws
  // Error(kUnsupported) for other models, and Error(kBadArgument) if neither the model's files nor an option specify the pooling.
  std::vector<Embedding> embed(std::span<const std::string> texts, const EmbedOptions& options = {}) const;
  std::vector<Embedding> embed(std::span<const std::vector<TokenId>> texts, const EmbedOptions& options = {}) const;
  std::vector<Embedding> embed(std::initializer_list<std::string> texts, const EmbedOptions& options = {}) const {
    return embed(std::span(texts.begin(), texts.size()), options);
  }
  Embedding embed(std::string_view text, const EmbedOptions& options = {}) const;
  // The hidden states of the same models before pooling. Ids are used unchanged. Throws Error(kUnsupported) if the graph outputs only
  // pooled vectors.
  std::vector<HiddenStates> hidden_states(std::span<const std::vector<TokenId>> texts) const;
  bool can_embed() const;
  bool can_generate() const;                                                   // false: the model only embeds
  int embedding_size(const EmbedOptions& options = {}) const;                  // length of a vector; throws as embed() does
  int max_embedding_tokens() const;                                            // per text; 0: unknown
  std::vector<std::pair<std::string, std::string>> embedding_prompts() const;  // names and texts

  // Encoder-decoder models. Results are in the order of the sources, and each is the same as alone. All sources are checked before anything
  // runs.
  std::vector<Translation> translate(std::span<const std::string> texts, const TranslateOptions& options = {}) const;
  std::vector<Translation> translate(std::span<const std::vector<TokenId>> sources, const TranslateOptions& options = {}) const;
  std::vector<Translation> translate(std::initializer_list<std::string> texts, const TranslateOptions& options = {}) const {
    return translate(std::span(texts.begin(), texts.size()), options);
  }
  Translation translate(std::string_view text, const TranslateOptions& options = {}) const;
  Translation translate(std::span<const TokenId> source, const TranslateOptions& options = {}) const;

  // Speech models. Samples of one channel, from -1 to 1, of any length and sample rate (Hz).
  Transcription transcribe(std::span<const float> samples, int sample_rate, const TranscribeOptions& options = {}) const;
  // A WAVE file of any sample rate, channel count and length; it is not read into memory as a whole.
  Transcription transcribe(const std::filesystem::path& wave_file, const TranscribeOptions& options = {}) const;

  // The same from precomputed features without a batch axis, one entry per source or window.
  std::vector<Translation> translate(std::span<const Features> sources, const TranslateOptions& options = {}) const;
  Transcription transcribe(std::span<const Features> windows, const TranscribeOptions& options = {}) const;
  int feature_rank() const;  // number of axes of one source, if the encoder reads features; 0: it reads token ids, or there is no encoder

  bool has_tokenizer() const;
  std::vector<TokenId> tokenize(std::string_view text, bool add_special = true) const;
  std::string detokenize(std::span<const TokenId> ids, bool skip_special = true) const;
  // What a token adds to a text behind other tokens, which may be part of a character. Special tokens are written out.
  std::string token_bytes(TokenId id) const;
  bool has_chat_template() const;
  // `messages_json`: [{"role": …, "content": …}, …], rendered with the model's chat template.
  std::string apply_chat_template(std::string_view messages_json, bool add_generation_prompt = true) const;

  bool has_encoder() const;     // encoder-decoder: use translate or transcribe, not generate
  bool has_timestamps() const;  // the decoder has timestamp tokens, so TranscribeOptions::timestamps can be used
  int vocab_size() const;
  int max_positions() const;    // 0: unknown
  std::string backend() const;  // "native", "ort", "reference"
  std::string device() const;
  size_t weights_bytes() const;
  size_t weights_bytes_per_token() const;  // read to compute one token of one sequence
  size_t cache_bytes_per_token() const;    // stored per position, and read for every later position
  SourceWork source_work() const;          // since the model was loaded
  CacheUse cache_use() const;
  double load_ms() const;
  std::vector<TokenId> eos_ids() const;
  std::vector<TokenId> start_ids() const;  // prompt to use if there is none (the bos token); empty if the model has no such token

  // Opaque: used by the library.
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace kvik
