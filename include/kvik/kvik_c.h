#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// kvik.h for other languages. What a call does is said there.
//
//   kvik_model* model;
//   if (kvik_model_load("fable", NULL, &model) != KVIK_OK) puts(kvik_last_error());
//
// Handles are made by the library and given back with their own _free, in any order; _free(NULL) does nothing. A pointer that a call hands
// out belongs to the handle it came from. Strings are UTF-8 and end with a zero byte; those that come in may be given up after the call.
// A model may be shared by threads; any other handle is used by one thread at a time, and no session from within its own callbacks.
#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvik_status {
  KVIK_OK = 0,
  KVIK_BAD_ARGUMENT = 1,      // the caller asked for something that cannot be
  KVIK_BAD_MODEL = 2,         // a model, tokenizer or config file contradicts itself or its format
  KVIK_UNSUPPORTED = 3,       // well formed, but beyond what this build can do
  KVIK_IO = 4,                // a file could not be found, read or written
  KVIK_TOO_LARGE = 5,         // would not fit in memory or in a stated limit
  KVIK_INTERNAL = 6,          // a fault of ours
  KVIK_CONTEXT_FULL = 7,      // a session has no room for so many tokens; nothing was appended
  KVIK_BUFFER_TOO_SMALL = 8,  // the size that is needed was written; nothing else was
} kvik_status;

// A sentence about the last call of this thread that did not give KVIK_OK; empty where all did. It holds until the next such call.
const char* kvik_last_error(void);
const char* kvik_version(void);

typedef enum kvik_finish { KVIK_STOP = 0, KVIK_LENGTH = 1, KVIK_CANCELLED = 2 } kvik_finish;
typedef enum kvik_backend { KVIK_BACKEND_AUTO, KVIK_BACKEND_NATIVE, KVIK_BACKEND_ORT, KVIK_BACKEND_REFERENCE } kvik_backend;
typedef enum kvik_device { KVIK_CPU, KVIK_CUDA } kvik_device;
typedef enum kvik_weights { KVIK_WEIGHTS_AUTO, KVIK_WEIGHTS_F32, KVIK_WEIGHTS_F16, KVIK_WEIGHTS_Q8, KVIK_WEIGHTS_Q4 } kvik_weights;
typedef enum kvik_kv { KVIK_KV_AUTO, KVIK_KV_F32, KVIK_KV_F16, KVIK_KV_Q8 } kvik_kv;
typedef enum kvik_log_level { KVIK_LOG_DEBUG, KVIK_LOG_INFO, KVIK_LOG_WARNING, KVIK_LOG_ERROR } kvik_log_level;
typedef enum kvik_early_stopping { KVIK_EARLY_FALSE, KVIK_EARLY_TRUE, KVIK_EARLY_NEVER } kvik_early_stopping;

// Structs begin with their size, so that they can grow: have options filled by their _init, and set `size` of what a call fills. Everywhere
// NULL for options stands for what _init says. A number that is not set is KVIK_UNSET, or NAN where it is a double: the model's files
// decide.
#define KVIK_UNSET INT32_MIN

typedef struct kvik_load_options {
  size_t size;
  int32_t backend;                                                      // kvik_backend
  int32_t device;                                                       // kvik_device
  int32_t weights;                                                      // kvik_weights
  int32_t kv;                                                           // kvik_kv
  int32_t threads;                                                      // 0: one for each core
  int32_t context;                                                      // positions a session may hold; 0: as many as the model has
  const char* isa;                                                      // NULL: the best of this machine
  const char* variant;                                                  // which precision of a folder with several; NULL: chosen
  const char* ort_library;                                              // ONNX Runtime's shared library; NULL: searched for
  void (*log)(void* user, kvik_log_level level, const char* sentence);  // any thread, as long as the model or a session of it lives
  void* user;
} kvik_load_options;
void kvik_load_options_init(kvik_load_options* options, size_t size);

typedef struct kvik_logit_bias {
  int32_t id;
  double bias;
} kvik_logit_bias;

typedef struct kvik_sample_options {
  size_t size;
  double temperature;  // 0: greedy
  int32_t top_k;
  double top_p;
  double min_p;
  double repetition_penalty;
  double presence_penalty;
  double frequency_penalty;
  int32_t no_repeat_ngram_size;
  const kvik_logit_bias* logit_bias;
  size_t n_logit_bias;
  bool has_seed;
  uint64_t seed;
} kvik_sample_options;
void kvik_sample_options_init(kvik_sample_options* options, size_t size);

// Callbacks get `user`. A piece is whole UTF-8 characters, ends with a zero byte and holds during the call; true ends the generation.
typedef bool (*kvik_on_piece)(void* user, const char* text, size_t n_bytes);
typedef void (*kvik_on_progress)(void* user, int32_t done, int32_t total);
typedef bool (*kvik_on_cancelled)(void* user);  // true: stop; asked between steps

typedef struct kvik_generate_options {
  size_t size;
  const kvik_sample_options* sampling;  // NULL: as the model's files say
  int32_t max_tokens;
  const char* const* stop;
  size_t n_stop;
  const int32_t* stop_ids;
  size_t n_stop_ids;
  bool ignore_eos;
  bool recompute;  // everything at every step, without the cache, to compare
  kvik_on_piece piece;
  kvik_on_progress progress;  // while a prompt is read
  kvik_on_cancelled cancelled;
  void* user;
} kvik_generate_options;
void kvik_generate_options_init(kvik_generate_options* options, size_t size);

typedef struct kvik_translate_options {
  size_t size;
  const kvik_sample_options* sampling;  // NULL: as the model's files say
  int32_t beams;
  double length_penalty;
  int32_t early_stopping;  // kvik_early_stopping
  int32_t num_return_sequences;
  const char* language;         // to translate into; NULL where the model has one
  const char* source_language;  // NULL where the model has one
  int32_t max_tokens;
  const char* const* stop;
  size_t n_stop;
  const int32_t* stop_ids;
  size_t n_stop_ids;
  bool ignore_eos;
  int32_t min_length;
  int32_t min_new_tokens;
  int32_t encoder_no_repeat_ngram_size;
  double encoder_repetition_penalty;
  int32_t decoder_start_token_id;
  int32_t forced_bos_token_id;  // -1: none, whatever the files say
  int32_t forced_eos_token_id;
  int32_t batch;
  bool truncate;
  kvik_on_progress progress;  // after each batch
  kvik_on_cancelled cancelled;
  void* user;
} kvik_translate_options;
void kvik_translate_options_init(kvik_translate_options* options, size_t size);

typedef struct kvik_model kvik_model;
typedef struct kvik_session kvik_session;
typedef struct kvik_generation kvik_generation;
typedef struct kvik_translations kvik_translations;

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

// Results of unknown length are copied into the caller's buffer; the needed size is always written. With no buffer (NULL, 0) the size is
// all that is asked for. `n_bytes` of a text does not count the zero byte, for which the buffer has to have room.
kvik_status kvik_tokenize(const kvik_model* model, const char* text, size_t n_bytes, bool add_special, int32_t* ids, size_t capacity,
                          size_t* n_ids);
kvik_status kvik_detokenize(const kvik_model* model, const int32_t* ids, size_t n_ids, bool skip_special, char* text, size_t capacity,
                            size_t* n_bytes);
kvik_status kvik_apply_chat_template(const kvik_model* model, const char* messages_json, bool add_generation_prompt, char* text,
                                     size_t capacity, size_t* n_bytes);

// Generates to the end; each piece goes to the options' callback as it comes. With a session what that holds already is not computed again
// where the prompt begins with it; NULL: none. `generation` may be NULL where the callback is enough.
kvik_status kvik_generate(const kvik_model* model, const char* prompt, const kvik_generate_options* options, kvik_generation** generation);
kvik_status kvik_generate_ids(const kvik_model* model, kvik_session* session, const int32_t* ids, size_t n_ids,
                              const kvik_generate_options* options, kvik_generation** generation);
void kvik_generation_free(kvik_generation* generation);

typedef struct kvik_generated {
  size_t size;  // set it; the call fills the rest
  const char* text;
  size_t n_bytes;
  const int32_t* ids;  // the new ones, with the end token that stopped it
  size_t n_ids;
  const int32_t* prompt_ids;
  size_t n_prompt_ids;
  kvik_finish finish;
  double prefill_ms;
  double first_token_ms;
  double decode_ms;
  int32_t computed_prompt_tokens;
  int32_t reused_prompt_tokens;
} kvik_generated;
kvik_status kvik_generation_get(const kvik_generation* generation, kvik_generated* generated);

kvik_status kvik_session_new(const kvik_model* model, kvik_session** session);
void kvik_session_free(kvik_session* session);
// KVIK_CONTEXT_FULL: none was appended.
kvik_status kvik_session_append(kvik_session* session, const int32_t* ids, size_t n_ids);
// Of the last position; they hold until the session changes.
kvik_status kvik_session_logits(kvik_session* session, const float** logits, size_t* n_logits);
// Chooses a next token; does not append it.
kvik_status kvik_session_sample(kvik_session* session, const kvik_sample_options* options, int32_t* token);
kvik_status kvik_session_fork(const kvik_session* session, kvik_session** branch);
kvik_status kvik_session_rewind(kvik_session* session, int32_t length);
// Whole or not at all; _load goes on as if the session had never left, with the same model loaded the same way.
kvik_status kvik_session_save(const kvik_session* session, const char* file);
kvik_status kvik_session_load(const kvik_model* model, const char* file, kvik_session** session);
kvik_status kvik_session_length(const kvik_session* session, int32_t* length);
kvik_status kvik_session_capacity(const kvik_session* session, int32_t* capacity);  // 0: no limit is known
// They hold until the session changes.
kvik_status kvik_session_tokens(const kvik_session* session, const int32_t** ids, size_t* n_ids);

// One run for n different sessions: a token for each. `logits` gets [n, vocab_size]; NULL: they are asked of the sessions.
kvik_status kvik_step(const kvik_model* model, kvik_session* const* sessions, const int32_t* tokens, size_t n, float* logits,
                      size_t capacity);

// Of encoder-decoders. In the order of the sources, each the same as alone.
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
kvik_status kvik_translations_get(const kvik_translations* translations, size_t place, size_t hypothesis, kvik_translated* translated);

#ifdef __cplusplus
}
#endif
