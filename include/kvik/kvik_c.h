#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The C API, for C and for languages that can call C. It mirrors kvik.h and engine.h, which document each call in detail: what blocks,
// what runs the model, and what results contain.
//
//   kvik_model* model;
//   if (kvik_model_load("fable", NULL, &model) != KVIK_STATUS_OK) puts(kvik_last_error());
//
// Release each handle with its own _free, in any order; _free(NULL) does nothing. Pointers that a call returns belong to the handle that
// they came from. Strings are UTF-8 and zero-terminated; input strings need to live only during the call.
// Threads may share a model, an engine or a constraint. Any other handle must be used by one thread at a time, except that
// kvik_stream_cancel and kvik_task_cancel may be called from any thread. A session must not be used from within its own callbacks.
#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvik_status {
  KVIK_STATUS_OK = 0,
  KVIK_STATUS_BAD_ARGUMENT = 1,      // an argument or option is invalid
  KVIK_STATUS_BAD_MODEL = 2,         // a model, tokenizer or config file is malformed
  KVIK_STATUS_UNSUPPORTED = 3,       // well formed, but not supported by this build
  KVIK_STATUS_IO = 4,                // a file could not be found, read or written
  KVIK_STATUS_TOO_LARGE = 5,         // does not fit in memory or exceeds a limit
  KVIK_STATUS_INTERNAL = 6,          // a bug in Kvik
  KVIK_STATUS_CONTEXT_FULL = 7,      // a session has no room for these tokens; nothing was appended
  KVIK_STATUS_BUFFER_TOO_SMALL = 8,  // only the required size was written
  KVIK_STATUS_NO_MEMORY = 9,         // kv_bytes are in use by other sessions; nothing was appended; try again after one of them ends
  KVIK_STATUS_QUEUE_FULL = 10,       // the engine's queue is full; nothing was submitted
} kvik_status;

// The message of this thread's last call that did not return KVIK_STATUS_OK; empty if there was none. Valid until the next such call.
const char* kvik_last_error(void);
const char* kvik_version(void);

typedef enum kvik_finish { KVIK_FINISH_STOP = 0, KVIK_FINISH_LENGTH = 1, KVIK_FINISH_CANCELLED = 2 } kvik_finish;
typedef enum kvik_backend { KVIK_BACKEND_AUTO, KVIK_BACKEND_NATIVE, KVIK_BACKEND_ORT, KVIK_BACKEND_REFERENCE } kvik_backend;
typedef enum kvik_device { KVIK_DEVICE_CPU, KVIK_DEVICE_CUDA, KVIK_DEVICE_AUTO } kvik_device;
typedef enum kvik_weights { KVIK_WEIGHTS_AUTO, KVIK_WEIGHTS_F32, KVIK_WEIGHTS_F16, KVIK_WEIGHTS_Q8, KVIK_WEIGHTS_Q4 } kvik_weights;
typedef enum kvik_kv { KVIK_KV_AUTO, KVIK_KV_F32, KVIK_KV_F16, KVIK_KV_Q8 } kvik_kv;
typedef enum kvik_log_level { KVIK_LOG_LEVEL_DEBUG, KVIK_LOG_LEVEL_INFO, KVIK_LOG_LEVEL_WARNING, KVIK_LOG_LEVEL_ERROR } kvik_log_level;
typedef enum kvik_speculate { KVIK_SPECULATE_OFF, KVIK_SPECULATE_LOOKUP } kvik_speculate;
typedef enum kvik_early_stopping { KVIK_EARLY_STOPPING_FALSE, KVIK_EARLY_STOPPING_TRUE, KVIK_EARLY_STOPPING_NEVER } kvik_early_stopping;

// Structs begin with their size, so that later versions can add fields: initialize option structs with their _init function, and set
// `size` in structs that a call fills. NULL options are the same as options initialized by _init. All optional numbers, including whole
// numbers, are doubles, so that one value means "not set": KVIK_UNSET. Options that are not set are taken from the model's files. Optional
// lists and strings are not set if they are NULL; a list that is not NULL may have 0 entries.
#define KVIK_UNSET ((double)NAN)

typedef struct kvik_load_options {
  size_t size;
  int32_t backend;                                                     // kvik_backend
  int32_t device;                                                      // kvik_device
  int32_t weights;                                                     // kvik_weights
  int32_t kv;                                                          // kvik_kv
  int32_t threads;                                                     // 0: one per core
  int32_t context;                                                     // maximum positions of a session; 0: the model's maximum
  const char* isa;                                                     // NULL: the fastest that this CPU supports
  const char* variant;                                                 // which precision, if a folder has several
  const char* ort_library;                                             // ONNX Runtime's shared library; NULL: searched for
  void (*log)(void* user, kvik_log_level level, const char* message);  // any thread, while the model or one of its sessions exists
  void* user;
  double kv_bytes;            // memory limit of the KV cache, for all sessions and cached prefixes; KVIK_UNSET: no limit
  double reuse_prefixes;      // 0 or 1: do not recompute a prefix that any session has computed before; KVIK_UNSET: 1
  const char* compile_cache;  // folder for compiled plans and packed weights; NULL: none
  const char* cuda_library;   // libkvik-cuda.so; NULL: searched for
  int32_t device_index;       // which GPU, if there are several
} kvik_load_options;
void kvik_load_options_init(kvik_load_options* options, size_t size);

typedef struct kvik_logit_bias {
  int32_t id;
  double bias;
} kvik_logit_bias;

typedef struct kvik_sampling {
  size_t size;
  double temperature;  // 0: greedy
  double top_k;
  double top_p;
  double min_p;
  double typical_p;
  double epsilon_cutoff;
  double eta_cutoff;
  double repetition_penalty;
  double presence_penalty;
  double frequency_penalty;
  double encoder_repetition_penalty;
  double no_repeat_ngram_size;
  double encoder_no_repeat_ngram_size;
  double min_length;
  double min_new_tokens;
  double forced_bos_token_id;    // -1: none
  double remove_invalid_values;  // 0 or 1
  double renormalize_logits;     // 0 or 1
  double seed;                   // a whole number below 2^53
  const kvik_logit_bias* logit_bias;
  size_t n_logit_bias;
  const int32_t* forced_eos_token_id;
  size_t n_forced_eos_token_id;
  const int32_t* suppress_tokens;
  size_t n_suppress_tokens;
  const int32_t* begin_suppress_tokens;
  size_t n_begin_suppress_tokens;
} kvik_sampling;
void kvik_sampling_init(kvik_sampling* sampling, size_t size);

// Callbacks receive `user`. A piece consists of whole UTF-8 characters, zero-terminated and valid during the call; return true to stop
// generating.
typedef bool (*kvik_on_piece)(void* user, const char* text, size_t n_bytes);
typedef void (*kvik_on_progress)(void* user, int32_t done, int32_t total);
typedef bool (*kvik_on_cancelled)(void* user);  // true: stop; polled between steps

typedef struct kvik_model kvik_model;

// A format that generated text must match (docs/constraints.md). Compiled once; may be used by any number of calls and threads. Errors name
// the position of a malformed or unsupported part.
typedef struct kvik_constraint kvik_constraint;
kvik_status kvik_constraint_json_schema(const char* schema, kvik_constraint** constraint);
kvik_status kvik_constraint_json_object(kvik_constraint** constraint);                 // any JSON object
kvik_status kvik_constraint_regex(const char* pattern, kvik_constraint** constraint);  // ECMAScript syntax; must match the whole text
kvik_status kvik_constraint_grammar(const char* gbnf, kvik_constraint** constraint);   // GBNF; the rule `root` must match the whole text
void kvik_constraint_free(kvik_constraint* constraint);

typedef struct kvik_generate_options {
  size_t size;
  const kvik_sampling* sampling;  // NULL: from the model's files
  double max_tokens;
  double beams;  // 1: token by token
  double length_penalty;
  double early_stopping;  // kvik_early_stopping
  const char* const* stop;
  size_t n_stop;
  const int32_t* stop_ids;
  size_t n_stop_ids;
  bool ignore_eos;
  bool recompute;  // recompute everything at every step, without the cache, for comparison
  kvik_on_piece piece;
  kvik_on_progress progress;  // of the prompt
  kvik_on_cancelled cancelled;
  void* user;
  const kvik_model* draft;            // a smaller model with the same vocabulary that proposes tokens; NULL: none
  int32_t speculate;                  // kvik_speculate
  const kvik_constraint* constraint;  // NULL: none
} kvik_generate_options;
void kvik_generate_options_init(kvik_generate_options* options, size_t size);

typedef struct kvik_translate_options {
  size_t size;
  const kvik_sampling* sampling;  // NULL: from the model's files
  double max_tokens;
  double beams;
  double length_penalty;
  double early_stopping;  // kvik_early_stopping
  double num_return_sequences;
  double decoder_start_token_id;
  double batch;
  const char* language;         // target language, if the model has several
  const char* source_language;  // if the model has several
  const char* const* stop;
  size_t n_stop;
  const int32_t* stop_ids;
  size_t n_stop_ids;
  bool ignore_eos;
  bool truncate;
  kvik_on_progress progress;  // in sources
  kvik_on_cancelled cancelled;
  void* user;
} kvik_translate_options;
void kvik_translate_options_init(kvik_translate_options* options, size_t size);

typedef struct kvik_transcribe_options {
  size_t size;
  const kvik_translate_options* decoding;  // languages, batch and truncate are ignored; NULL: from the model's files
  const char* language;                    // spoken language; NULL: from the model's files, else detected
  const char* task;                        // "transcribe" or "translate"; NULL: from the model's files
  double batch;                            // audio windows per run
  bool timestamps;                         // generate timestamps; see kvik_transcription_get_timed
} kvik_transcribe_options;
void kvik_transcribe_options_init(kvik_transcribe_options* options, size_t size);

typedef struct kvik_embed_options {
  size_t size;
  // "cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken", several joined by '+', or "graph"; NULL: from the model's files
  const char* pooling;
  double normalize;           // 1 or 0; KVIK_UNSET: from the model's files
  const char* prompt;         // name; "": none; NULL: the model's default
  double dimensions;          // keep only the first N; 0: all
  bool truncate;              // truncate texts that are too long; otherwise they are an error
  kvik_on_progress progress;  // in texts
  kvik_on_cancelled cancelled;
  void* user;
} kvik_embed_options;
void kvik_embed_options_init(kvik_embed_options* options, size_t size);

typedef struct kvik_session kvik_session;
typedef struct kvik_generation kvik_generation;
typedef struct kvik_embeddings kvik_embeddings;
typedef struct kvik_translations kvik_translations;
typedef struct kvik_transcription kvik_transcription;

// A folder, an .onnx file, or the name of a model on the search path.
kvik_status kvik_model_load(const char* path_or_name, const kvik_load_options* options, kvik_model** model);
void kvik_model_free(kvik_model* model);

typedef struct kvik_model_info {
  size_t size;  // set it; the call fills the rest
  int32_t vocab_size;
  int32_t max_positions;  // 0: unknown
  size_t weights_bytes;
  double load_ms;
  const char* backend;
  const char* device;
  bool has_tokenizer;
  bool has_chat_template;
  const int32_t* eos_ids;
  size_t n_eos_ids;
} kvik_model_info;
kvik_status kvik_model_get_info(const kvik_model* model, kvik_model_info* info);

// Results of unknown length are copied into the caller's buffer; the required size is always written. Pass no buffer (NULL, 0) to get only
// the size. The size `n_bytes` of a text does not include the terminating zero byte, for which the buffer must have room.
kvik_status kvik_tokenize(const kvik_model* model, const char* text, size_t n_bytes, bool add_special, int32_t* ids, size_t capacity,
                          size_t* n_ids);
kvik_status kvik_detokenize(const kvik_model* model, const int32_t* ids, size_t n_ids, bool skip_special, char* text, size_t capacity,
                            size_t* n_bytes);
kvik_status kvik_apply_chat_template(const kvik_model* model, const char* messages_json, bool add_generation_prompt, char* text,
                                     size_t capacity, size_t* n_bytes);

// Generates to the end; each piece is passed to the options' callback as it is generated. `session` may be NULL; otherwise tokens at the
// beginning of the prompt that are already in the session are not recomputed. `generation` may be NULL if the callback is enough.
kvik_status kvik_generate(const kvik_model* model, const char* prompt, const kvik_generate_options* options, kvik_generation** generation);
kvik_status kvik_generate_ids(const kvik_model* model, kvik_session* session, const int32_t* ids, size_t n_ids,
                              const kvik_generate_options* options, kvik_generation** generation);
void kvik_generation_free(kvik_generation* generation);

typedef struct kvik_generated {
  size_t size;  // set it; the call fills the rest
  const char* text;
  size_t n_bytes;
  const int32_t* ids;  // generated tokens, including the end token that stopped it
  size_t n_ids;
  const int32_t* prompt_ids;
  size_t n_prompt_ids;
  kvik_finish finish;
  double prefill_ms;
  double first_token_ms;
  double decode_ms;
  int32_t computed_prompt_tokens;
  int32_t reused_prompt_tokens;
  int32_t decode_tokens;    // computed in decode_ms: all but the first
  int32_t decode_runs;      // runs of the model for decode_tokens; speculation needs fewer
  int32_t proposed_tokens;  // by speculation
  int32_t accepted_tokens;  // of the proposed tokens
  double mask_ms;           // time spent finding the tokens that a constraint allows
} kvik_generated;
kvik_status kvik_generation_get(const kvik_generation* generation, kvik_generated* generated);

kvik_status kvik_session_new(const kvik_model* model, kvik_session** session);
void kvik_session_free(kvik_session* session);
// KVIK_STATUS_CONTEXT_FULL: nothing was appended.
kvik_status kvik_session_append(kvik_session* session, const int32_t* ids, size_t n_ids);
// Computes many continuations in one run: node i is ids[i] after node parents[i] < i, or after the session's own tokens if that is -1. The
// session does not change until kvik_session_keep(), which appends the path to one node without recomputing it.
kvik_status kvik_session_append_tree(kvik_session* session, const int32_t* ids, const int32_t* parents, size_t n_nodes);
// Logits after a node's token; valid until the session changes.
kvik_status kvik_session_tree_logits(kvik_session* session, int32_t node, const float** logits, size_t* n_logits);
kvik_status kvik_session_keep(kvik_session* session, int32_t node);
// Logits of the last position; valid until the session changes.
kvik_status kvik_session_logits(kvik_session* session, const float** logits, size_t* n_logits);
// Chooses a next token without appending it.
kvik_status kvik_session_sample(kvik_session* session, const kvik_sampling* sampling, int32_t* token);
kvik_status kvik_session_fork(const kvik_session* session, kvik_session** branch);
kvik_status kvik_session_rewind(kvik_session* session, int32_t length);
// The file is written atomically. kvik_session_load needs the same model, loaded with the same backend, weights and cache formats.
kvik_status kvik_session_save(const kvik_session* session, const char* file);
kvik_status kvik_session_load(const kvik_model* model, const char* file, kvik_session** session);
kvik_status kvik_session_length(const kvik_session* session, int32_t* length);
kvik_status kvik_session_capacity(const kvik_session* session, int32_t* capacity);  // 0: unknown
// Valid until the session changes.
kvik_status kvik_session_tokens(const kvik_session* session, const int32_t** ids, size_t* n_ids);

// Appends one token to each of n different sessions in one run: to all of them or to none. `logits` receives [n, vocab_size]; NULL: read
// them from the sessions.
kvik_status kvik_step(const kvik_model* model, kvik_session* const* sessions, const int32_t* tokens, size_t n, float* logits,
                      size_t capacity);

// The natural logarithms of the probability of each token given those before it. `window`: tokens per window, each of which starts with an
// empty context and has no value for its first token; 0: 512, or the context if it is smaller. `capacity` of n_ids is always enough.
kvik_status kvik_score(const kvik_model* model, const int32_t* ids, size_t n_ids, int32_t window, double* logprobs, size_t capacity,
                       size_t* n_logprobs);

// Embedding models: text encoders, and decoders that output hidden states. Results are in the order of the texts, and each is the same as
// alone.
kvik_status kvik_embed(const kvik_model* model, const char* const* texts, size_t n_texts, const kvik_embed_options* options,
                       kvik_embeddings** embeddings);
kvik_status kvik_embed_ids(const kvik_model* model, const int32_t* const* texts, const size_t* n_ids, size_t n_texts,
                           const kvik_embed_options* options, kvik_embeddings** embeddings);
void kvik_embeddings_free(kvik_embeddings* embeddings);
// Valid until the embeddings are freed. `n_tokens`: number of tokens computed for the text; may be NULL.
kvik_status kvik_embeddings_get(const kvik_embeddings* embeddings, size_t index, const float** values, size_t* n_values, int32_t* n_tokens);

// Encoder-decoder models. Results are in the order of the sources, and each is the same as alone.
kvik_status kvik_translate(const kvik_model* model, const char* const* texts, size_t n_texts, const kvik_translate_options* options,
                           kvik_translations** translations);
kvik_status kvik_translate_ids(const kvik_model* model, const int32_t* const* sources, const size_t* n_ids, size_t n_sources,
                               const kvik_translate_options* options, kvik_translations** translations);
void kvik_translations_free(kvik_translations* translations);

typedef struct kvik_translated {
  size_t size;  // set it; the call fills the rest
  const char* text;
  size_t n_bytes;
  const int32_t* ids;  // without the start token, with the end token
  size_t n_ids;
  float score;
  kvik_finish finish;
  const int32_t* source_ids;
  size_t n_source_ids;
  size_t n_hypotheses;  // of this source; 1 or more
} kvik_translated;
// Hypothesis 0 is the best.
kvik_status kvik_translations_get(const kvik_translations* translations, size_t index, size_t hypothesis, kvik_translated* translated);

// Speech models. Samples of one channel, from -1 to 1, of any length and sample rate (Hz); or a WAVE file.
kvik_status kvik_transcribe(const kvik_model* model, const float* samples, size_t n_samples, int32_t sample_rate,
                            const kvik_transcribe_options* options, kvik_transcription** transcription);
kvik_status kvik_transcribe_file(const kvik_model* model, const char* wave_file, const kvik_transcribe_options* options,
                                 kvik_transcription** transcription);
void kvik_transcription_free(kvik_transcription* transcription);

typedef struct kvik_transcribed {
  size_t size;  // set it; the call fills the rest
  const char* text;
  size_t n_bytes;
  const int32_t* ids;
  size_t n_ids;
  const char* language;  // empty if the model has no languages
  kvik_finish finish;
  size_t n_segments;
  size_t n_timed;  // with timestamps
} kvik_transcribed;
kvik_status kvik_transcription_get(const kvik_transcription* transcription, kvik_transcribed* transcribed);

typedef struct kvik_segment {
  size_t size;  // set it; the call fills the rest
  double start_s;
  double end_s;
  const char* text;
  size_t n_bytes;
  const int32_t* ids;
  size_t n_ids;
  float score;
  kvik_finish finish;
} kvik_segment;
// With timestamps: the text between two times; `score` and `finish` are not set. KVIK_STATUS_BAD_ARGUMENT if index is out of range.
kvik_status kvik_transcription_get_timed(const kvik_transcription* transcription, size_t index, kvik_segment* timed);
kvik_status kvik_transcription_get_segment(const kvik_transcription* transcription, size_t index, kvik_segment* segment);

// ---- continuous batching (kvik/engine.h): runs many requests of one model together, each with the same result as alone

typedef struct kvik_engine kvik_engine;
typedef struct kvik_stream kvik_stream;  // a generation
typedef struct kvik_task kvik_task;      // any other request; it returns one result at its end

typedef struct kvik_engine_options {
  size_t size;
  double max_sequences;  // generations, sources and windows that run together; KVIK_UNSET: 64
  double max_queue;      // waiting requests; KVIK_UNSET: 1024
  double kv_bytes;       // memory limit of the KV cache; KVIK_UNSET: as the model was loaded
  double max_step_ms;    // target for the time between two tokens while prompts are computed; KVIK_UNSET: 50
} kvik_engine_options;
void kvik_engine_options_init(kvik_engine_options* options, size_t size);

// Runs requests on its own thread. Freeing it cancels running requests; their streams and tasks can still be read.
kvik_status kvik_engine_new(const kvik_model* model, const kvik_engine_options* options, kvik_engine** engine);
void kvik_engine_free(kvik_engine* engine);

typedef struct kvik_request_options {
  size_t size;
  const char* user_name;           // for fairness: the next request to run is of the user with the fewest running requests; NULL: ""
  double timeout_ms;               // from submission; the request is then cancelled. KVIK_UNSET: none
  const kvik_stream* same_prompt;  // generations: wait until this stream has computed its prompt, and reuse it; NULL: none
  bool no_wait;                    // if the queue is full, return KVIK_STATUS_QUEUE_FULL instead of blocking
  void (*update)(void* user);      // new data or a result is available. Called on the engine's thread: must not block
  void* user;
} kvik_request_options;
void kvik_request_options_init(kvik_request_options* options, size_t size);

// Bad arguments are reported here. Callbacks in the options are called on the engine's thread, must be fast and must not call the engine.
// `piece` and `progress` of kvik_generate_options are not called.
kvik_status kvik_engine_submit(kvik_engine* engine, const char* prompt, const kvik_generate_options* options,
                               const kvik_request_options* request, kvik_stream** stream);
kvik_status kvik_engine_submit_ids(kvik_engine* engine, const int32_t* ids, size_t n_ids, const kvik_generate_options* options,
                                   const kvik_request_options* request, kvik_stream** stream);

// Waits for the next piece of text: whole UTF-8 characters, valid until the next call for the stream; NULL at the end. If the generation
// failed, returns its error.
kvik_status kvik_stream_next(kvik_stream* stream, const char** text, size_t* n_bytes);
// The same without waiting; `text` may be empty.
typedef struct kvik_stream_update {
  size_t size;  // set it; the call fills the rest
  const char* text;
  size_t n_bytes;
  bool has_ended;
  kvik_finish finish;  // if it has ended
  bool timed_out;      // ended by timeout_ms; `finish` is KVIK_FINISH_CANCELLED
} kvik_stream_update;
kvik_status kvik_stream_poll(kvik_stream* stream, kvik_stream_update* update);
// The text read and the tokens generated so far; times and `finish` are final only at the end. Valid until the next call for the stream.
kvik_status kvik_stream_get(kvik_stream* stream, kvik_generated* generated);
// Any thread. The generation ends and frees its cache within one step.
kvik_status kvik_stream_cancel(kvik_stream* stream);
void kvik_stream_free(kvik_stream* stream);  // cancels it

kvik_status kvik_engine_translate(kvik_engine* engine, const char* const* texts, size_t n_texts, const kvik_translate_options* options,
                                  const kvik_request_options* request, kvik_task** task);
kvik_status kvik_engine_translate_ids(kvik_engine* engine, const int32_t* const* sources, const size_t* n_ids, size_t n_sources,
                                      const kvik_translate_options* options, const kvik_request_options* request, kvik_task** task);
kvik_status kvik_engine_transcribe(kvik_engine* engine, const float* samples, size_t n_samples, int32_t sample_rate,
                                   const kvik_transcribe_options* options, const kvik_request_options* request, kvik_task** task);
kvik_status kvik_engine_transcribe_file(kvik_engine* engine, const char* wave_file, const kvik_transcribe_options* options,
                                        const kvik_request_options* request, kvik_task** task);
kvik_status kvik_engine_embed(kvik_engine* engine, const char* const* texts, size_t n_texts, const kvik_embed_options* options,
                              const kvik_request_options* request, kvik_task** task);
kvik_status kvik_engine_embed_ids(kvik_engine* engine, const int32_t* const* texts, const size_t* n_ids, size_t n_texts,
                                  const kvik_embed_options* options, const kvik_request_options* request, kvik_task** task);

kvik_status kvik_task_is_done(const kvik_task* task, bool* is_done);
// Wait for the end and return the result: once, and with the function for the kind of request. If the task was cancelled or timed out, the
// result is partial: translations with KVIK_FINISH_CANCELLED, embeddings without values. If the request failed, returns its error.
kvik_status kvik_task_get_translations(kvik_task* task, kvik_translations** translations);
kvik_status kvik_task_get_transcription(kvik_task* task, kvik_transcription** transcription);
kvik_status kvik_task_get_embeddings(kvik_task* task, kvik_embeddings** embeddings);
// Any thread.
kvik_status kvik_task_cancel(kvik_task* task);
void kvik_task_free(kvik_task* task);  // cancels it

typedef struct kvik_engine_load {
  size_t size;      // set it; the call fills the rest
  int32_t running;  // generations, sources and windows
  int32_t waiting;  // requests that have not begun
  int64_t preempted;
} kvik_engine_load;
kvik_status kvik_engine_get_load(const kvik_engine* engine, kvik_engine_load* load);

#ifdef __cplusplus
}
#endif
