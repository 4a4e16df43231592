#include "c_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "c_checks.h"

typedef struct Pieces {
  char text[4096];
  size_t n_bytes;
  int n_pieces, most;
} Pieces;

static bool collect_piece(void* user, const char* text, size_t n_bytes) {
  Pieces* pieces = user;
  if (text[n_bytes] != 0 || pieces->n_bytes + n_bytes >= sizeof pieces->text) return true;
  memcpy(pieces->text + pieces->n_bytes, text, n_bytes + 1);
  pieces->n_bytes += n_bytes;
  return ++pieces->n_pieces == pieces->most;
}

const char* c_generates(const char* fable) {
  kvik_model* model = load(fable);
  CHECK(model != NULL);
  kvik_model_info info = {.size = sizeof info};
  OK(kvik_model_get_info(model, &info));
  CHECK(info.vocab_size == 4096 && info.has_tokenizer && info.n_eos_ids >= 1);
  CHECK(strcmp(info.backend, "native") == 0 && strlen(kvik_version()) > 0);

  Pieces pieces = {.most = -1};
  kvik_generate_options options = greedy(24);
  options.piece = collect_piece;
  options.user = &pieces;
  kvik_generation* generation = NULL;
  OK(kvik_generate(model, "Once upon a time", &options, &generation));
  kvik_generated all = {.size = sizeof all};
  OK(kvik_generation_get(generation, &all));
  CHECK(all.n_ids == 24 && all.finish == KVIK_FINISH_LENGTH && all.n_prompt_ids > 0);
  CHECK(all.n_bytes == pieces.n_bytes && strcmp(all.text, pieces.text) == 0);

  char text[4096];
  size_t n_bytes = 0;
  OK(kvik_detokenize(model, all.ids, all.n_ids, true, text, sizeof text, &n_bytes));
  CHECK(n_bytes == all.n_bytes && strcmp(text, all.text) == 0);

  kvik_generation* again = NULL;
  OK(kvik_generate_ids(model, NULL, all.prompt_ids, all.n_prompt_ids, &options, &again));
  kvik_generated same = {.size = sizeof same};
  OK(kvik_generation_get(again, &same));
  CHECK(same.n_ids == all.n_ids && memcmp(same.ids, all.ids, all.n_ids * sizeof *all.ids) == 0);
  kvik_model_free(model);  // in any order
  kvik_generation_free(again);
  kvik_generation_free(generation);
  return NULL;
}

static bool always(void* user) {
  (void)user;
  return true;
}

const char* c_callbacks_stop(const char* fable) {
  kvik_model* model = load(fable);
  Pieces pieces = {.most = 3};
  kvik_generate_options options = greedy(100);
  options.piece = collect_piece;
  options.user = &pieces;
  kvik_generation* generation = NULL;
  OK(kvik_generate(model, "Once upon a time", &options, &generation));
  kvik_generated all = {.size = sizeof all};
  OK(kvik_generation_get(generation, &all));
  CHECK(all.finish == KVIK_FINISH_CANCELLED && all.n_ids < 10 && pieces.n_pieces == 3);
  kvik_generation_free(generation);

  options = greedy(100);
  options.cancelled = always;
  OK(kvik_generate(model, "Once upon a time", &options, &generation));
  OK(kvik_generation_get(generation, &all));
  CHECK(all.finish == KVIK_FINISH_CANCELLED && all.n_ids <= 1);
  kvik_generation_free(generation);

  const char* const stops[] = {"e"};
  options = greedy(100);
  options.stop = stops;
  options.n_stop = 1;
  OK(kvik_generate(model, "Once upon a time", &options, &generation));
  OK(kvik_generation_get(generation, &all));
  CHECK(all.finish == KVIK_FINISH_STOP && strchr(all.text, 'e') == NULL);
  kvik_generation_free(generation);
  kvik_model_free(model);
  return NULL;
}

const char* c_continues_a_session(const char* fable) {
  kvik_model* model = load(fable);
  kvik_session* session = NULL;
  OK(kvik_session_new(model, &session));
  int32_t prompt[16] = {0};
  size_t n = 0;
  OK(kvik_tokenize(model, "The king", 8, true, prompt, 8, &n));
  kvik_generate_options options = greedy(4);
  kvik_generation* generation = NULL;
  OK(kvik_generate_ids(model, session, prompt, n, &options, &generation));
  kvik_generated all = {.size = sizeof all};
  OK(kvik_generation_get(generation, &all));
  CHECK(all.n_ids == 4);
  memcpy(prompt + n, all.ids, sizeof(int32_t) * 4);
  OK(kvik_generate_ids(model, session, prompt, n + 4, &options, NULL));
  int32_t length = 0;
  OK(kvik_session_length(session, &length));
  CHECK(length >= (int32_t)n + 7);
  kvik_generation_free(generation);
  kvik_session_free(session);
  kvik_model_free(model);
  return NULL;
}

const char* c_keeps_a_path_of_a_tree(const char* fable) {
  kvik_model* model = load(fable);
  kvik_session *session = NULL, *alone = NULL;
  OK(kvik_session_new(model, &session));
  OK(kvik_session_new(model, &alone));
  const int32_t ids[3] = {1, 2, 3}, nodes[3] = {4, 5, 6}, parents[3] = {-1, 0, 0}, path[5] = {1, 2, 3, 4, 6};
  OK(kvik_session_append(session, ids, 3));
  OK(kvik_session_append_tree(session, nodes, parents, 3));
  OK(kvik_session_append(alone, path, 5));
  const float *found = NULL, *expected = NULL;
  size_t n = 0;
  OK(kvik_session_tree_logits(session, 2, &found, &n));
  OK(kvik_session_logits(alone, &expected, &n));
  CHECK(memcmp(found, expected, n * sizeof(float)) == 0);
  CHECK(kvik_session_tree_logits(session, 3, &found, &n) == KVIK_STATUS_BAD_ARGUMENT);
  OK(kvik_session_keep(session, 2));
  CHECK(kvik_session_keep(session, 2) == KVIK_STATUS_BAD_ARGUMENT);
  int32_t length = 0;
  OK(kvik_session_length(session, &length));
  CHECK(length == 5);
  OK(kvik_session_logits(session, &found, &n));
  CHECK(memcmp(found, expected, n * sizeof(float)) == 0);
  kvik_session_free(session);
  kvik_session_free(alone);
  kvik_model_free(model);
  return NULL;
}

const char* c_runs_out_of_memory(const char* fable) {
  kvik_load_options options;
  kvik_load_options_init(&options, sizeof options);
  options.kv_bytes = 300000;  // one page of 32 positions
  kvik_model* model = NULL;
  OK(kvik_model_load(fable, &options, &model));
  kvik_session* session = NULL;
  OK(kvik_session_new(model, &session));
  int32_t ids[40], length = 0;
  for (int32_t i = 0; i < 40; ++i) ids[i] = 100 + i;
  OK(kvik_session_append(session, ids, 20));
  CHECK(kvik_session_append(session, ids, 40) == KVIK_STATUS_NO_MEMORY && strstr(kvik_last_error(), "kv_bytes") != NULL);
  CHECK(kvik_step(model, &session, ids, 1, NULL, 0) == KVIK_STATUS_OK);
  OK(kvik_session_length(session, &length));
  CHECK(length == 21);
  kvik_session_free(session);
  kvik_model_free(model);
  return NULL;
}

const char* c_forks_and_rewinds(const char* fable) {
  kvik_model* model = load(fable);
  kvik_session *session = NULL, *branch = NULL;
  OK(kvik_session_new(model, &session));
  int32_t ids[8], next = 0, again = 0, length = 0, capacity = 0;
  size_t n = 0, n_logits = 0;
  OK(kvik_tokenize(model, "Once upon a time", 16, true, ids, 8, &n));
  OK(kvik_session_append(session, ids, n));
  OK(kvik_session_fork(session, &branch));
  kvik_sampling likeliest;
  kvik_sampling_init(&likeliest, sizeof likeliest);
  likeliest.temperature = 0;
  OK(kvik_session_sample(branch, &likeliest, &next));
  const float* logits = NULL;
  OK(kvik_session_logits(branch, &logits, &n_logits));
  CHECK(n_logits == 4096);
  for (size_t i = 0; i < n_logits; ++i) CHECK(logits[i] <= logits[next]);
  OK(kvik_session_append(branch, &next, 1));
  OK(kvik_session_length(session, &length));
  CHECK(length == (int32_t)n);
  OK(kvik_session_rewind(branch, length));
  OK(kvik_session_sample(branch, &likeliest, &again));
  CHECK(again == next);
  const int32_t* tokens = NULL;
  size_t n_tokens = 0;
  OK(kvik_session_tokens(branch, &tokens, &n_tokens));
  CHECK(n_tokens == n && memcmp(tokens, ids, n * sizeof *ids) == 0);
  CHECK(kvik_session_rewind(branch, -1) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_rewind(branch, 100) == KVIK_STATUS_BAD_ARGUMENT);
  OK(kvik_session_capacity(branch, &capacity));
  CHECK(capacity == 1024);
  int32_t* many = calloc(2000, sizeof *many);
  CHECK(kvik_session_append(branch, many, 2000) == KVIK_STATUS_CONTEXT_FULL && strstr(kvik_last_error(), "2000") != NULL);
  free(many);
  OK(kvik_session_rewind(branch, 0));
  CHECK(kvik_session_logits(branch, &logits, &n_logits) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_session_free(session);
  kvik_session_free(branch);
  kvik_model_free(model);
  return NULL;
}

const char* c_saves_and_loads(const char* fable, const char* file) {
  kvik_model* model = load(fable);
  kvik_session *session = NULL, *back = NULL;
  OK(kvik_session_new(model, &session));
  const int32_t ids[] = {5, 6, 7, 8};
  OK(kvik_session_append(session, ids, 4));
  OK(kvik_session_save(session, file));
  OK(kvik_session_load(model, file, &back));
  const float *expected = NULL, *found = NULL;
  size_t n = 0;
  OK(kvik_session_logits(session, &expected, &n));
  OK(kvik_session_logits(back, &found, &n));
  CHECK(memcmp(expected, found, n * sizeof *found) == 0);
  kvik_session_free(back);
  CHECK(kvik_session_load(model, fable, &back) == KVIK_STATUS_IO && back == NULL);
  CHECK(kvik_session_save(session, "/no/such/folder/a.kv") == KVIK_STATUS_IO);
  CHECK(kvik_session_save(NULL, file) == KVIK_STATUS_BAD_ARGUMENT && kvik_session_save(session, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_load(NULL, file, &back) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_session_load(model, NULL, &back) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_load(model, file, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_session_free(session);
  kvik_model_free(model);
  return NULL;
}

const char* c_steps_many_sessions(const char* fable) {
  kvik_model* model = load(fable);
  kvik_session *sessions[3] = {NULL}, *alone = NULL;
  const int32_t starts[3] = {10, 20, 30}, tokens[3] = {11, 21, 31};
  for (int i = 0; i < 3; ++i) {
    OK(kvik_session_new(model, &sessions[i]));
    OK(kvik_session_append(sessions[i], &starts[i], 1));
  }
  OK(kvik_session_fork(sessions[1], &alone));
  const size_t room = 3 * 4096;
  float* rows = calloc(room, sizeof *rows);
  CHECK(kvik_step(model, sessions, tokens, 3, rows, room - 1) == KVIK_STATUS_BUFFER_TOO_SMALL);
  int32_t length = 0;
  OK(kvik_session_length(sessions[2], &length));
  CHECK(length == 1);
  OK(kvik_step(model, sessions, tokens, 3, rows, room));
  OK(kvik_session_append(alone, &tokens[1], 1));
  const float* row = NULL;
  size_t n = 0;
  OK(kvik_session_logits(alone, &row, &n));
  CHECK(n == 4096 && memcmp(row, rows + 4096, 4096 * sizeof *row) == 0);
  OK(kvik_session_logits(sessions[1], &row, &n));
  CHECK(memcmp(row, rows + 4096, 4096 * sizeof *row) == 0);
  kvik_session* const twice[2] = {sessions[0], sessions[0]};
  CHECK(kvik_step(model, twice, tokens, 2, NULL, 0) == KVIK_STATUS_BAD_ARGUMENT);
  const int32_t outside[3] = {1, 2, 1 << 20};
  CHECK(kvik_step(model, sessions, outside, 3, NULL, 0) == KVIK_STATUS_BAD_ARGUMENT);
  OK(kvik_session_length(sessions[0], &length));  // it is still there, and as it was
  CHECK(length == 2);
  free(rows);
  for (int i = 0; i < 3; ++i) kvik_session_free(sessions[i]);
  kvik_session_free(alone);
  kvik_model_free(model);
  return NULL;
}

const char* c_copies_into_buffers(const char* fable) {
  kvik_model* model = load(fable);
  int32_t ids[8] = {-7, -7, -7};
  char text[32] = "untouched";
  size_t n = 0, n_bytes = 0;
  OK(kvik_tokenize(model, "Once upon a time", 16, true, NULL, 0, &n));
  CHECK(n > 1);
  CHECK(kvik_tokenize(model, "Once upon a time", 16, true, ids, n - 1, &n_bytes) == KVIK_STATUS_BUFFER_TOO_SMALL);
  CHECK(n_bytes == n && ids[0] == -7 && strlen(kvik_last_error()) > 0);
  OK(kvik_tokenize(model, "Once upon a time", 16, true, ids, n, &n));
  OK(kvik_detokenize(model, ids, n, true, NULL, 0, &n_bytes));
  CHECK(n_bytes == 16);
  CHECK(kvik_detokenize(model, ids, n, true, text, 16, &n_bytes) == KVIK_STATUS_BUFFER_TOO_SMALL);  // the zero byte has no room
  CHECK(strcmp(text, "untouched") == 0);
  OK(kvik_detokenize(model, ids, n, true, text, 17, &n_bytes));
  CHECK(strcmp(text, "Once upon a time") == 0);
  CHECK(kvik_tokenize(model, "a", 1, true, ids, 8, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_tokenize(model, "a", 1, true, NULL, 8, &n) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_tokenize(model, "a", SIZE_MAX, true, NULL, 0, &n) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_apply_chat_template(model, "[]", true, text, sizeof text, &n_bytes) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_model_free(model);
  return NULL;
}

const char* c_refuses_null(const char* fable) {
  kvik_model* model = NULL;
  kvik_session* session = NULL;
  kvik_model_info info = {.size = sizeof info};
  kvik_generated generated = {.size = sizeof generated};
  kvik_translated translated = {.size = sizeof translated};
  const float* logits = NULL;
  const int32_t* tokens = NULL;
  int32_t id = 0;
  size_t n = 0;
  CHECK(kvik_model_load(NULL, NULL, &model) == KVIK_STATUS_BAD_ARGUMENT && model == NULL);
  CHECK(kvik_model_load(fable, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  model = load(fable);
  CHECK(kvik_model_get_info(NULL, &info) == KVIK_STATUS_BAD_ARGUMENT && kvik_model_get_info(model, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(strstr(kvik_last_error(), "NULL") != NULL);
  CHECK(kvik_tokenize(NULL, "a", 1, true, &id, 1, &n) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_tokenize(model, NULL, 1, true, &id, 1, &n) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_detokenize(model, NULL, 3, true, NULL, 0, &n) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_generate(NULL, "a", NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_generate(model, NULL, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_generate_ids(model, NULL, NULL, 2, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_generate_ids(model, NULL, NULL, 0, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);  // an empty prompt
  CHECK(kvik_generation_get(NULL, &generated) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_new(NULL, &session) == KVIK_STATUS_BAD_ARGUMENT && kvik_session_new(model, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_append(NULL, &id, 1) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_session_logits(NULL, &logits, &n) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_sample(NULL, NULL, &id) == KVIK_STATUS_BAD_ARGUMENT && kvik_session_fork(NULL, &session) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_rewind(NULL, 0) == KVIK_STATUS_BAD_ARGUMENT && kvik_session_length(NULL, &id) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_tokens(NULL, &tokens, &n) == KVIK_STATUS_BAD_ARGUMENT && kvik_session_capacity(NULL, &id) == KVIK_STATUS_BAD_ARGUMENT);
  OK(kvik_session_new(model, &session));
  CHECK(kvik_session_append(session, NULL, 4) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_session_sample(session, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_fork(session, NULL) == KVIK_STATUS_BAD_ARGUMENT && kvik_session_length(session, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_session_logits(session, NULL, &n) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_session_tokens(session, &tokens, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_session* const holes[2] = {session, NULL};
  const int32_t two[2] = {1, 2};
  CHECK(kvik_step(model, holes, two, 2, NULL, 0) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_step(model, NULL, two, 2, NULL, 0) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_step(model, holes, NULL, 2, NULL, 0) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_step(NULL, holes, two, 1, NULL, 0) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_translate(model, NULL, 1, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_translations_get(NULL, 0, 0, &translated) == KVIK_STATUS_BAD_ARGUMENT);
  OK(kvik_session_length(session, &id));
  CHECK(id == 0);
  kvik_session_free(session);
  kvik_model_free(model);
  kvik_model_free(NULL);
  kvik_session_free(NULL);
  kvik_generation_free(NULL);
  kvik_translations_free(NULL);
  return NULL;
}

const char* c_refuses_what_cannot_be(const char* fable) {
  kvik_model* model = NULL;
  kvik_load_options load_options;
  kvik_load_options_init(&load_options, sizeof load_options);
  CHECK(kvik_model_load("no-such-model", NULL, &model) == KVIK_STATUS_IO && strstr(kvik_last_error(), "no-such-model") != NULL);
  load_options.backend = 77;
  CHECK(kvik_model_load(fable, &load_options, &model) == KVIK_STATUS_BAD_ARGUMENT && model == NULL);
  load_options.backend = KVIK_BACKEND_NATIVE;
  load_options.isa = "abacus";
  CHECK(kvik_model_load(fable, &load_options, &model) != KVIK_STATUS_OK && strstr(kvik_last_error(), "abacus") != NULL);

  model = load(fable);
  const int32_t outside[2] = {1, 1 << 20}, below[1] = {-1};
  kvik_session* session = NULL;
  OK(kvik_session_new(model, &session));
  CHECK(kvik_session_append(session, outside, 2) == KVIK_STATUS_BAD_ARGUMENT &&
        kvik_session_append(session, below, 1) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_generate_ids(model, session, outside, 2, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  size_t n = 0;
  CHECK(kvik_detokenize(model, outside, 2, true, NULL, 0, &n) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_sampling sampling;
  kvik_sampling_init(&sampling, sizeof sampling);
  CHECK(isnan(sampling.top_p) && isnan(sampling.top_k) && isnan(sampling.seed));
  sampling.top_k = 1.5;
  CHECK(kvik_session_sample(session, &sampling, &(int32_t){0}) == KVIK_STATUS_BAD_ARGUMENT && strstr(kvik_last_error(), "top_k") != NULL);
  sampling.top_k = KVIK_UNSET;
  sampling.temperature = -1;
  kvik_generate_options options = greedy(4);
  options.sampling = &sampling;
  CHECK(kvik_generate(model, "a", &options, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  const char* const texts[] = {"a"};
  kvik_translations* found = NULL;
  CHECK(kvik_translate(model, texts, 1, NULL, &found) == KVIK_STATUS_BAD_ARGUMENT && strstr(kvik_last_error(), "no encoder") != NULL);
  kvik_model* other = load(fable);
  const int32_t one[1] = {5};
  CHECK(kvik_generate_ids(other, session, one, 1, NULL, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_session_free(session);
  kvik_model_free(other);
  kvik_model_free(model);
  return NULL;
}

typedef struct Meddler {
  kvik_session* session;
  kvik_status append, fork, step, nested;
  kvik_model* model;
} Meddler;

static bool meddle(void* user, const char* text, size_t n_bytes) {
  (void)text, (void)n_bytes;
  Meddler* meddler = user;
  const int32_t id = 5;
  kvik_session* branch = NULL;
  meddler->append = kvik_session_append(meddler->session, &id, 1);
  meddler->fork = kvik_session_fork(meddler->session, &branch);
  meddler->step = kvik_step(meddler->model, &meddler->session, &id, 1, NULL, 0);
  meddler->nested = kvik_generate_ids(meddler->model, meddler->session, &id, 1, NULL, NULL);
  kvik_session_free(meddler->session);
  return true;
}

const char* c_refuses_sessions_in_use(const char* fable) {
  Meddler meddler = {.model = load(fable)};
  OK(kvik_session_new(meddler.model, &meddler.session));
  kvik_generate_options options = greedy(8);
  options.piece = meddle;
  options.user = &meddler;
  const int32_t prompt[2] = {10, 11};
  OK(kvik_generate_ids(meddler.model, meddler.session, prompt, 2, &options, NULL));
  CHECK(meddler.append == KVIK_STATUS_BAD_ARGUMENT && meddler.fork == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(meddler.step == KVIK_STATUS_BAD_ARGUMENT && meddler.nested == KVIK_STATUS_BAD_ARGUMENT);
  kvik_model_free(meddler.model);
  return NULL;
}

const char* c_speculates(const char* fable) {
  kvik_model* model = load(fable);
  kvik_generated found[3] = {{.size = sizeof found[0]}, {.size = sizeof found[0]}, {.size = sizeof found[0]}};
  kvik_generation* generations[3] = {NULL, NULL, NULL};
  for (int i = 0; i < 3; ++i) {
    kvik_generate_options options = greedy(24);
    CHECK(options.speculate == KVIK_SPECULATE_OFF && options.draft == NULL);
    if (i == 1) options.speculate = KVIK_SPECULATE_LOOKUP;
    if (i == 2) options.draft = model;
    OK(kvik_generate(model, "Once upon a time", &options, &generations[i]));
    OK(kvik_generation_get(generations[i], &found[i]));
    CHECK(found[i].n_ids == found[0].n_ids && memcmp(found[i].ids, found[0].ids, found[0].n_ids * sizeof(int32_t)) == 0);
    CHECK(found[i].decode_tokens == (int32_t)found[i].n_ids - 1 && found[i].decode_runs <= found[i].decode_tokens);
    CHECK(found[i].accepted_tokens == found[i].decode_tokens - found[i].decode_runs);
  }
  for (int i = 0; i < 3; ++i) kvik_generation_free(generations[i]);
  kvik_generate_options options = greedy(4);
  options.speculate = 7;
  CHECK(kvik_generate(model, "a", &options, NULL) == KVIK_STATUS_BAD_ARGUMENT && strstr(kvik_last_error(), "speculate") != NULL);
  kvik_model_free(model);
  return NULL;
}

const char* c_structs_grow(const char* fable) {
  kvik_model* model = load(fable);
  // An older program's struct ends earlier; what is beyond has its default and is not touched.
  kvik_generate_options older;
  memset(&older, 0x5a, sizeof older);
  const size_t older_size = offsetof(kvik_generate_options, stop);
  kvik_generate_options_init(&older, older_size);
  older.max_tokens = 3;
  CHECK(older.size == older_size && ((unsigned char*)&older.stop)[0] == 0x5a);
  kvik_generation* generation = NULL;
  OK(kvik_generate(model, "The king", &older, &generation));
  kvik_generated all = {.size = offsetof(kvik_generated, finish)};
  all.finish = KVIK_FINISH_CANCELLED;
  OK(kvik_generation_get(generation, &all));
  CHECK(all.n_ids == 3 && all.finish == KVIK_FINISH_CANCELLED);
  kvik_generation_free(generation);
  // A newer one is refused, as is one that was never filled.
  older.size = sizeof older + 8;
  CHECK(kvik_generate(model, "The king", &older, NULL) == KVIK_STATUS_BAD_ARGUMENT && strstr(kvik_last_error(), "_init") != NULL);
  older.size = 0;
  CHECK(kvik_generate(model, "The king", &older, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_model_info info = {0};
  CHECK(kvik_model_get_info(model, &info) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_load_options_init(NULL, 100);
  kvik_model_free(model);
  return NULL;
}
