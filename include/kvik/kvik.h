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

// Kvik runs generative ONNX models with a key/value cache: the file you exported, unchanged.
//
//   kvik::Model model = kvik::Model::load("fable");
//   for (std::string_view piece : model.generate("Once upon a time", {.max_tokens = 64})) std::cout << piece << std::flush;
//
// Errors: loading and bad arguments throw kvik::Error; expected outcomes (a full context, the end of a text) are values. The library
// never prints, exits or aborts.
// Blocking: load, generate (which computes the prompt), Generation::next, append, append_tree, step, embed, translate, transcribe and score
// run the model on the calling thread and its workers; logits() does after a rewind. One run at a time per model: calls from several
// threads wait in the order in which they came, and those that wait together share the next run (native backend; with the same results as
// alone).
// Lifetime: sessions, generations and results keep what they need of their model alive. A moved-from object may only be assigned to
// or destroyed; passing one to step() throws.
namespace kvik {

struct Hypothesis {
  std::vector<TokenId> ids;  // without the start token, with the end token that stopped it
  std::string text;          // without the end token; empty if the model has no tokenizer
  float score = 0;           // sum of log-probabilities / length^length_penalty
  Finish finish = Finish::kStop;
};

// The best hypothesis for one source. A blank text has a blank translation.
struct Translation : Hypothesis {
  std::vector<TokenId> source_ids;
  std::vector<Hypothesis> hypotheses;  // num_return_sequences of them, best first
};

// What was said between two times of a recording.
struct TimedText {
  double start_s = 0;
  double end_s = 0;
  std::string text;          // empty if the model has no tokenizer
  std::vector<TokenId> ids;  // with the times around it
};

// One window of a recording.
struct Segment : Hypothesis {
  double start_s = 0;
  double end_s = 0;
  std::vector<TimedText> timed;        // with timestamps: what it has of Transcription::timed
  std::vector<Hypothesis> hypotheses;  // num_return_sequences of them, best first
};

struct Transcription {
  std::string text;                // of all segments; empty if the model has no tokenizer
  std::vector<TokenId> ids;        // of all segments, with their end tokens
  std::vector<TokenId> start_ids;  // what the decoder started with: start, language, task, if the model has them
  std::string language;            // empty if the model has no languages
  Finish finish = Finish::kStop;   // kLength: a segment was cut off; kCancelled: the segments before the cancellation are here
  std::vector<Segment> segments;
  std::vector<TimedText> timed;  // with timestamps: in order; text and ids are theirs
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
  int tokens = 0;  // that were computed: prompt and special tokens included, what was cut off not
};

// One row per token of a text: [tokens, size].
struct HiddenStates {
  int tokens = 0;
  int size = 0;
  std::shared_ptr<const float[]> values;
};

// What an encoder reads if that is not text: an array in row-major order.
struct Features {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// An array of numbers from a NumPy file (.npy). Throws Error for a file that is not one.
Features read_npy_features(const std::filesystem::path& file);

// Encoder-decoder models: a source that is encoded once and kept adds 1 to each.
struct SourceWork {
  int64_t encoded = 0;          // sources that went through the encoder
  int64_t cross_projected = 0;  // sources whose cross-attention keys and values were computed
};

struct Metrics {
  double prefill_ms = 0;      // computing prompts
  double first_token_ms = 0;  // from the start of a generation to its first token
  double decode_ms = 0;       // single tokens: after the first of a generation, or appended one at a time to a session
  int prompt_tokens = 0;      // computed in prefill_ms
  int reused_tokens = 0;      // of the prompt, already in the cache
  int decode_tokens = 0;      // in decode_ms
  int generated_tokens = 0;
  int decode_runs = 0;      // of the model, for decode_tokens: fewer with speculation
  int proposed_tokens = 0;  // by speculation
  int accepted_tokens = 0;  // of those
  size_t cache_bytes = 0;
  double mask_ms = 0;  // finding the tokens that a constraint allows; not the time of the thread that computes
  double prefill_tokens_per_s() const { return prefill_ms > 0 ? prompt_tokens * 1e3 / prefill_ms : 0; }
  double decode_tokens_per_s() const { return decode_ms > 0 ? decode_tokens * 1e3 / decode_ms : 0; }
  double tokens_per_run() const { return decode_runs > 0 ? static_cast<double>(decode_tokens) / decode_runs : 0; }
};

// Memory of the KV cache of a model, and what it saved.
struct CacheUse {
  size_t used_bytes = 0;         // pages of sessions and of known prefixes; shared ones count once
  size_t prefix_bytes = 0;       // of these, only kept for later: evicted if memory is needed
  size_t allocated_bytes = 0;    // from the operating system
  size_t limit_bytes = 0;        // LoadOptions::kv_bytes; 0: none
  int64_t reused_positions = 0;  // found instead of computed, since the model was loaded
  int64_t evicted_positions = 0;
};

// What Session::append_tree() found: logits of every node, valid until the session changes.
class [[nodiscard]] TreeLogits {
 public:
  AppendStatus status() const { return status_; }
  int size() const { return status_ == AppendStatus::kDone ? n_nodes_ : 0; }
  // After the node's token. Throws if there is no such node or the status is not kDone.
  std::span<const float> operator[](int node) const;

 private:
  friend class Session;
  AppendStatus status_ = AppendStatus::kDone;
  int n_nodes_ = 0;
  int vocab_ = 0;
  const float* logits_ = nullptr;  // [n_nodes][vocab]
  const int* rows_ = nullptr;      // of logits_, by node
};

// One context of a model, independent of every other. Used by one thread at a time.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Computes tokens: all of them, or none if the status is not kDone. Throws if an id is outside the vocabulary.
  AppendStatus append(std::span<const TokenId> tokens);
  AppendStatus append(TokenId token) { return append(std::span<const TokenId>(&token, 1)); }
  AppendStatus append(std::span<const TokenId> tokens, const AppendOptions& options);

  // Many continuations in one run: node i is tokens[i] after node parents[i] < i, or after the session's own tokens if that is -1, and sees
  // nothing but its ancestors. The session stays as it is until keep(). Throws for backends that cannot do this exactly (Model::backend()
  // other than "native", recurrent state), and if an argument is out of range.
  TreeLogits append_tree(std::span<const TokenId> tokens, std::span<const int> parents);
  // Appends the path to a node of the last append_tree() without computing it again. Once, and before the session changes otherwise.
  void keep(int node);

  // Of the last position; valid until the session changes. Throws if nothing was appended.
  std::span<const float> logits();
  // The same without a copy, for as long as the result lives, whatever the session does: [vocab_size]. With a node: after a token of the
  // last append_tree().
  std::shared_ptr<const float[]> shared_logits();
  std::shared_ptr<const float[]> shared_logits(int node) const;

  // Chooses a next token without appending it.
  TokenId sample(const Sampling& sampling = {});

  // A second session with the same past; takes microseconds and shares memory. Neither sees what the other does afterwards.
  Session fork() const;

  // As if everything from position `length` on had never been appended. Throws for models that cannot be rewound (recurrent state),
  // except to 0.
  void rewind(int length);
  void reset() { rewind(0); }

  // Writes what Model::load_session() needs to continue, also on another machine; the file is complete or not there. Throws Error(kIo).
  void save(const std::filesystem::path& file) const;

  int length() const;
  int capacity() const;  // most positions; 0: unknown
  std::span<const TokenId> tokens() const;
  Metrics metrics() const;

 private:
  friend class Model;
  friend class Generation;
  struct State;
  explicit Session(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // shared with generations that continue the session
};

// Text as it is generated. Iterate once: each piece is whole UTF-8 characters and valid until the next.
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

  // The next piece, empty while a character or a possible stop text is incomplete; nullopt at the end. Throws if the generation continues
  // a session that was changed in between.
  std::optional<std::string_view> next();

  std::string text();  // everything that is left
  const std::vector<TokenId>& prompt_ids() const;
  const std::vector<TokenId>& ids() const;  // new ones so far, with the end token that stopped it
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
  // of a repository in the hub cache ($HF_HUB_CACHE, $HF_HOME): "ORG/NAME", or "NAME" if one organization has it.
  static Model load(const std::string& path_or_name, const LoadOptions& options = {});

  Generation generate(std::string_view prompt, const GenerateOptions& options = {}) const;
  Generation generate(std::span<const TokenId> prompt, const GenerateOptions& options = {}) const;
  // Continues a session: leading tokens of the prompt that it holds already are not computed again. With beams the session holds the
  // prompt afterwards, otherwise also the answer up to its last token.
  Generation generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options = {}) const;

  Session session() const;
  // From Session::save() of the same model, loaded with the same backend, weights and cache storage. Throws for any other file.
  Session load_session(const std::filesystem::path& file) const;
  // The same as a prefix that sessions may begin with: it is never evicted. Returns its number of tokens.
  int load_prefix(const std::filesystem::path& file) const;
  // One run for many different sessions, one token for each: all of them or, if the status is not kDone, none.
  AppendStatus step(std::span<Session* const> sessions, std::span<const TokenId> tokens) const;

  // Log-probability of every token given those before it.
  Score score(std::span<const TokenId> ids, const ScoreOptions& options = {}) const;

  // Models that give vectors: encoders of texts, and decoders whose file has hidden states. In the order of the texts, each the same as
  // alone, whatever their lengths (native backend: the same bits). Texts are checked before anything runs. Ids are taken as they are,
  // without a prompt. Throws Error(kUnsupported) for other models, and Error(kBadArgument) if neither the folder nor an option says how
  // hidden states become one vector.
  std::vector<Embedding> embed(std::span<const std::string> texts, const EmbedOptions& options = {}) const;
  std::vector<Embedding> embed(std::span<const std::vector<TokenId>> texts, const EmbedOptions& options = {}) const;
  std::vector<Embedding> embed(std::initializer_list<std::string> texts, const EmbedOptions& options = {}) const {
    return embed(std::span(texts.begin(), texts.size()), options);
  }
  Embedding embed(std::string_view text, const EmbedOptions& options = {}) const;
  // Of the same models, what they compute before pooling. Ids are taken as they are. Throws Error(kUnsupported) if the graph only pools.
  std::vector<HiddenStates> hidden_states(std::span<const std::vector<TokenId>> texts) const;
  bool can_embed() const;
  bool can_generate() const;                                                   // false: nothing but embed() works
  int embedding_size(const EmbedOptions& options = {}) const;                  // numbers in a vector; throws as embed() does
  int max_embedding_tokens() const;                                            // of a text; 0: unknown
  std::vector<std::pair<std::string, std::string>> embedding_prompts() const;  // names and texts

  // Encoder-decoder models: translations in the order of the sources, each the same as alone. Sources are checked before anything runs.
  std::vector<Translation> translate(std::span<const std::string> texts, const TranslateOptions& options = {}) const;
  std::vector<Translation> translate(std::span<const std::vector<TokenId>> sources, const TranslateOptions& options = {}) const;
  std::vector<Translation> translate(std::initializer_list<std::string> texts, const TranslateOptions& options = {}) const {
    return translate(std::span(texts.begin(), texts.size()), options);
  }
  Translation translate(std::string_view text, const TranslateOptions& options = {}) const;
  Translation translate(std::span<const TokenId> source, const TranslateOptions& options = {}) const;

  // Speech models: one channel, full scale 1, any length and sample rate (Hz).
  Transcription transcribe(std::span<const float> samples, int sample_rate, const TranscribeOptions& options = {}) const;
  // From a WAVE file: any sample rate, channel count and length; read piece by piece.
  Transcription transcribe(const std::filesystem::path& wave_file, const TranscribeOptions& options = {}) const;

  // The same from features that were computed elsewhere, without a batch axis: one source, or one window, each.
  std::vector<Translation> translate(std::span<const Features> sources, const TranslateOptions& options = {}) const;
  Transcription transcribe(std::span<const Features> windows, const TranscribeOptions& options = {}) const;
  int feature_rank() const;  // axes of one source of an encoder that reads features; 0: it reads token ids, or there is none

  bool has_tokenizer() const;
  std::vector<TokenId> tokenize(std::string_view text, bool add_special = true) const;
  std::string detokenize(std::span<const TokenId> ids, bool skip_special = true) const;
  bool has_chat_template() const;
  // `messages_json`: [{"role": …, "content": …}, …], rendered with the model's chat template.
  std::string apply_chat_template(std::string_view messages_json, bool add_generation_prompt = true) const;

  bool has_encoder() const;     // encoder-decoder: use translate or transcribe, not generate
  bool has_timestamps() const;  // the decoder has tokens for times: TranscribeOptions::timestamps works
  int vocab_size() const;
  int max_positions() const;    // 0: unknown
  std::string backend() const;  // "native", "ort", "reference"
  std::string device() const;
  size_t weights_bytes() const;
  size_t weights_bytes_per_token() const;  // read for one token of one sequence
  size_t cache_bytes_per_token() const;    // kept per position, and read for every later one
  SourceWork source_work() const;          // since the model was loaded
  CacheUse cache_use() const;
  double load_ms() const;
  std::vector<TokenId> eos_ids() const;
  std::vector<TokenId> start_ids() const;  // prompt of a text without a prompt; empty if the model has no such token

  // Opaque: what the other headers of kvik/ read.
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace kvik
