#include <stdatomic.h>
#include <string.h>

#include "c_checks.h"
#include "c_program.h"

enum { kStreams = 5 };

static kvik_request_options request(void) {
  kvik_request_options options;
  kvik_request_options_init(&options, sizeof options);
  return options;
}

const char* c_streams(const char* fable) {
  kvik_model* model = load(fable);
  kvik_engine_options options;
  kvik_engine_options_init(&options, sizeof options);
  options.max_sequences = 2;
  kvik_engine* engine = NULL;
  OK(kvik_engine_new(model, &options, &engine));
  kvik_stream* streams[kStreams];
  kvik_generate_options how = greedy(12);
  for (int i = 0; i < kStreams; ++i) {
    how.max_tokens = 8 + i;
    OK(kvik_engine_submit(engine, "Once upon a time", &how, NULL, &streams[i]));
  }
  for (int i = 0; i < kStreams; ++i) {
    char text[1024] = "";
    const char* piece = NULL;
    size_t n_bytes = 0;
    do {
      OK(kvik_stream_next(streams[i], &piece, &n_bytes));
      CHECK(piece == NULL || strlen(piece) == n_bytes);
      if (piece != NULL) strncat(text, piece, sizeof text - strlen(text) - 1);
    } while (piece != NULL);
    how.max_tokens = 8 + i;
    kvik_generation* alone = NULL;
    OK(kvik_generate(model, "Once upon a time", &how, &alone));
    kvik_generated expected = {.size = sizeof expected}, found = {.size = sizeof found};
    OK(kvik_generation_get(alone, &expected));
    OK(kvik_stream_get(streams[i], &found));
    CHECK(strcmp(text, expected.text) == 0 && strcmp(found.text, text) == 0);
    CHECK(found.n_ids == expected.n_ids && memcmp(found.ids, expected.ids, found.n_ids * sizeof *found.ids) == 0);
    CHECK(found.n_prompt_ids == expected.n_prompt_ids && found.finish == expected.finish);
    kvik_generation_free(alone);
  }
  kvik_model_free(model);  // in any order
  kvik_engine_free(engine);
  for (int i = 0; i < kStreams; ++i) kvik_stream_free(streams[i]);
  return NULL;
}

static void count(void* user) { ++*(_Atomic int*)user; }

const char* c_polls_and_cancels(const char* fable) {
  kvik_model* model = load(fable);
  kvik_engine* engine = NULL;
  OK(kvik_engine_new(model, NULL, &engine));
  _Atomic int n_updates = 0;
  kvik_request_options options = request();
  options.update = count;
  options.user = &n_updates;
  options.user_name = "somebody";
  kvik_generate_options endless = greedy(400);
  endless.ignore_eos = true;
  const int32_t prompt[3] = {5, 6, 7};
  kvik_stream *stream = NULL, *behind = NULL;
  OK(kvik_engine_submit_ids(engine, prompt, 3, &endless, &options, &stream));
  options.same_prompt = stream;
  OK(kvik_engine_submit_ids(engine, prompt, 3, &endless, &options, &behind));
  while (n_updates < 3) {}
  kvik_engine_load now = {.size = sizeof now};
  OK(kvik_engine_get_load(engine, &now));
  CHECK(now.running + now.waiting >= 1);
  OK(kvik_stream_cancel(stream));
  kvik_stream_update update = {.size = sizeof update};
  do {
    OK(kvik_stream_poll(stream, &update));
    CHECK(strlen(update.text) == update.n_bytes);
  } while (!update.has_ended);
  CHECK(update.finish == KVIK_FINISH_CANCELLED && !update.timed_out);
  kvik_stream_free(behind);

  options = request();
  options.timeout_ms = 1;
  OK(kvik_engine_submit_ids(engine, prompt, 3, &endless, &options, &behind));
  do { OK(kvik_stream_poll(behind, &update)); } while (!update.has_ended);
  CHECK(update.timed_out);
  kvik_stream_free(behind);
  kvik_stream_free(stream);

  const int32_t outside[1] = {1 << 20};
  const char* text = NULL;
  size_t n_bytes = 0;
  OK(kvik_engine_submit_ids(engine, outside, 1, NULL, NULL, &stream));
  CHECK(kvik_stream_next(stream, &text, &n_bytes) == KVIK_STATUS_BAD_ARGUMENT && text == NULL);
  kvik_stream_free(stream);
  kvik_engine_free(engine);
  kvik_model_free(model);
  return NULL;
}

const char* c_fills_a_queue(const char* fable) {
  kvik_model* model = load(fable);
  kvik_engine_options options;
  kvik_engine_options_init(&options, sizeof options);
  options.max_sequences = options.max_queue = 1;
  kvik_engine* engine = NULL;
  OK(kvik_engine_new(model, &options, &engine));
  kvik_request_options at_once = request();
  at_once.no_wait = true;
  kvik_generate_options endless = greedy(300);
  endless.ignore_eos = true;
  kvik_stream* streams[4] = {NULL};
  kvik_status status = KVIK_STATUS_OK;
  for (int i = 0; i < 4 && status == KVIK_STATUS_OK; ++i) status = kvik_engine_submit(engine, "Once", &endless, &at_once, &streams[i]);
  CHECK(status == KVIK_STATUS_QUEUE_FULL && streams[3] == NULL && strstr(kvik_last_error(), "queue is full") != NULL);
  for (int i = 0; i < 4; ++i) kvik_stream_free(streams[i]);
  kvik_engine_free(engine);
  options.max_sequences = 0;
  CHECK(kvik_engine_new(model, &options, &engine) == KVIK_STATUS_BAD_ARGUMENT && engine == NULL);
  kvik_model_free(model);
  return NULL;
}

const char* c_translates_in_an_engine(const char* translator) {
  kvik_model* model = load(translator);
  kvik_engine* engine = NULL;
  OK(kvik_engine_new(model, NULL, &engine));
  const char* const texts[2] = {"Good morning.", "How are you today?"};
  kvik_translate_options options;
  kvik_translate_options_init(&options, sizeof options);
  options.beams = 3;
  kvik_task *task = NULL, *other = NULL;
  OK(kvik_engine_translate(engine, texts, 2, &options, NULL, &task));
  OK(kvik_engine_translate(engine, texts + 1, 1, NULL, NULL, &other));
  kvik_translations *found = NULL, *alone = NULL;
  OK(kvik_task_get_translations(task, &found));
  OK(kvik_translate(model, texts, 2, &options, &alone));
  for (size_t i = 0; i < 2; ++i) {
    kvik_translated a = {.size = sizeof a}, b = {.size = sizeof b};
    OK(kvik_translations_get(found, i, 0, &a));
    OK(kvik_translations_get(alone, i, 0, &b));
    CHECK(strcmp(a.text, b.text) == 0 && a.score == b.score);
  }
  bool is_done = false;
  OK(kvik_task_is_done(task, &is_done));
  kvik_embeddings* embeddings = NULL;
  kvik_translations* again = NULL;
  CHECK(is_done && kvik_task_get_translations(task, &again) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_task_get_embeddings(other, &embeddings) == KVIK_STATUS_BAD_ARGUMENT && embeddings == NULL);
  OK(kvik_task_cancel(other));
  kvik_translations_free(found);
  kvik_translations_free(alone);
  kvik_task_free(task);
  kvik_task_free(other);
  CHECK(kvik_engine_embed(engine, texts, 2, NULL, NULL, &task) == KVIK_STATUS_UNSUPPORTED && task == NULL);
  CHECK(kvik_engine_transcribe(engine, NULL, 0, 16000, NULL, NULL, &task) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_engine_free(engine);
  kvik_model_free(model);
  return NULL;
}

const char* c_embeds_in_an_engine(const char* encoder) {
  kvik_model* model = load(encoder);
  kvik_engine* engine = NULL;
  OK(kvik_engine_new(model, NULL, &engine));
  const int32_t ids[5] = {1, 2, 3, 4, 5};
  const int32_t* const text[1] = {ids};
  const size_t lengths[1] = {5};
  kvik_embed_options options;
  kvik_embed_options_init(&options, sizeof options);
  options.pooling = "mean";
  kvik_task* task = NULL;
  OK(kvik_engine_embed_ids(engine, text, lengths, 1, &options, NULL, &task));
  kvik_embeddings *found = NULL, *alone = NULL;
  OK(kvik_task_get_embeddings(task, &found));
  OK(kvik_embed_ids(model, text, lengths, 1, &options, &alone));
  const float *a = NULL, *b = NULL;
  size_t n_a = 0, n_b = 0;
  OK(kvik_embeddings_get(found, 0, &a, &n_a, NULL));
  OK(kvik_embeddings_get(alone, 0, &b, &n_b, NULL));
  CHECK(n_a == n_b && memcmp(a, b, n_a * sizeof *a) == 0);
  kvik_stream* stream = NULL;
  CHECK(kvik_engine_submit_ids(engine, ids, 5, NULL, NULL, &stream) == KVIK_STATUS_UNSUPPORTED && stream == NULL);
  kvik_embeddings_free(found);
  kvik_embeddings_free(alone);
  kvik_task_free(task);
  kvik_engine_free(engine);
  kvik_model_free(model);
  return NULL;
}

const char* c_refuses_null_engines(const char* fable) {
  const kvik_status bad = KVIK_STATUS_BAD_ARGUMENT;
  kvik_model* model = load(fable);
  kvik_engine* engine = NULL;
  kvik_stream* stream = NULL;
  kvik_task* task = NULL;
  CHECK(kvik_engine_new(NULL, NULL, &engine) == bad && kvik_engine_new(model, NULL, NULL) == bad);
  OK(kvik_engine_new(model, NULL, &engine));
  const int32_t id = 1;
  CHECK(kvik_engine_submit(NULL, "a", NULL, NULL, &stream) == bad && kvik_engine_submit(engine, NULL, NULL, NULL, &stream) == bad);
  CHECK(kvik_engine_submit(engine, "a", NULL, NULL, NULL) == bad && kvik_engine_submit_ids(NULL, &id, 1, NULL, NULL, &stream) == bad);
  CHECK(kvik_engine_submit_ids(engine, NULL, 1, NULL, NULL, &stream) == bad &&
        kvik_engine_submit_ids(engine, &id, 1, NULL, NULL, NULL) == bad);
  CHECK(kvik_engine_translate(NULL, NULL, 0, NULL, NULL, &task) == bad && kvik_engine_translate(engine, NULL, 1, NULL, NULL, &task) == bad);
  CHECK(kvik_engine_translate_ids(NULL, NULL, NULL, 0, NULL, NULL, &task) == bad);
  CHECK(kvik_engine_transcribe(NULL, NULL, 0, 16000, NULL, NULL, &task) == bad);
  CHECK(kvik_engine_transcribe_file(engine, NULL, NULL, NULL, &task) == bad);
  CHECK(kvik_engine_embed(NULL, NULL, 0, NULL, NULL, &task) == bad &&
        kvik_engine_embed_ids(engine, NULL, NULL, 0, NULL, NULL, NULL) == bad);
  const char* text = NULL;
  size_t n_bytes = 0;
  bool is_done = false;
  kvik_generated generated = {.size = sizeof generated};
  kvik_stream_update update = {.size = sizeof update};
  kvik_translations* translations = NULL;
  CHECK(kvik_stream_next(NULL, &text, &n_bytes) == bad && kvik_stream_poll(NULL, &update) == bad && kvik_stream_cancel(NULL) == bad);
  CHECK(kvik_stream_get(NULL, &generated) == bad && kvik_task_is_done(NULL, &is_done) == bad && kvik_task_cancel(NULL) == bad);
  CHECK(kvik_task_get_translations(NULL, &translations) == bad && kvik_engine_get_load(engine, NULL) == bad);
  kvik_request_options unfilled = {0};
  CHECK(kvik_engine_submit(engine, "a", NULL, &unfilled, &stream) == bad && stream == NULL && strstr(kvik_last_error(), "_init") != NULL);
  OK(kvik_engine_submit(engine, "a", NULL, NULL, &stream));
  CHECK(kvik_stream_next(stream, NULL, &n_bytes) == bad && kvik_stream_poll(stream, NULL) == bad && kvik_stream_get(stream, NULL) == bad);
  kvik_stream_free(stream);
  kvik_stream_free(NULL);
  kvik_task_free(NULL);
  kvik_engine_free(NULL);
  kvik_engine_free(engine);
  kvik_model_free(model);
  return NULL;
}
