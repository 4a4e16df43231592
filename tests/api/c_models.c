#include <string.h>

#include "c_checks.h"
#include "c_program.h"

const char* c_translates(const char* translator) {
  kvik_model* model = load(translator);
  CHECK(model != NULL);
  const char* const texts[] = {"Good morning.", "", "I have lost my wallet."};
  kvik_translate_options options;
  kvik_translate_options_init(&options, sizeof options);
  options.beams = 4;
  options.num_return_sequences = 2;
  options.max_tokens = 32;
  kvik_translations *found = NULL, *again = NULL;
  OK(kvik_translate(model, texts, 3, &options, &found));
  kvik_translated best = {.size = sizeof best}, second = {.size = sizeof second}, same = {.size = sizeof same};
  OK(kvik_translations_get(found, 2, 0, &best));
  OK(kvik_translations_get(found, 2, 1, &second));
  CHECK(best.n_hypotheses == 2 && best.score >= second.score && best.n_bytes == strlen(best.text) && best.n_bytes > 0);
  CHECK(best.finish == KVIK_FINISH_STOP);
  OK(kvik_translate_ids(model, &best.source_ids, &best.n_source_ids, 1, &options, &again));
  OK(kvik_translations_get(again, 0, 0, &same));
  CHECK(strcmp(same.text, best.text) == 0 && same.score == best.score);
  OK(kvik_translations_get(found, 1, 0, &best));
  CHECK(best.n_bytes == 0 && best.n_hypotheses == 1);
  CHECK(kvik_translations_get(found, 3, 0, &best) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_translations_get(found, 0, 2, &best) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_translations_free(again);
  kvik_translations_free(found);

  options.language = "klingon";
  CHECK(kvik_translate(model, texts, 3, &options, &found) == KVIK_STATUS_BAD_ARGUMENT && found == NULL);
  CHECK(strstr(kvik_last_error(), "klingon") != NULL);
  options.language = NULL;
  options.early_stopping = 9;
  CHECK(kvik_translate(model, texts, 3, &options, &found) == KVIK_STATUS_BAD_ARGUMENT);
  const char* const holes[] = {"a", NULL};
  CHECK(kvik_translate(model, holes, 2, NULL, &found) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_session* session = NULL;
  CHECK(kvik_session_new(model, &session) == KVIK_STATUS_UNSUPPORTED && session == NULL);
  CHECK(kvik_generate(model, "a", NULL, NULL) == KVIK_STATUS_UNSUPPORTED);
  kvik_model_free(model);
  return NULL;
}

const char* c_embeds(const char* encoder, const char* fable) {
  kvik_model* model = load(encoder);
  const int32_t first[3] = {7, 8, 9}, second[5] = {1, 2, 3, 4, 5};
  const int32_t* const both[2] = {first, second};
  const size_t lengths[2] = {3, 5};
  kvik_embeddings *together = NULL, *alone = NULL;
  CHECK(kvik_embed_ids(model, both, lengths, 2, NULL, &together) == KVIK_STATUS_BAD_ARGUMENT &&
        strstr(kvik_last_error(), "pooling") != NULL);
  kvik_embed_options options;
  kvik_embed_options_init(&options, sizeof options);
  options.pooling = "mean";
  OK(kvik_embed_ids(model, both, lengths, 2, &options, &together));
  OK(kvik_embed_ids(model, both + 1, lengths + 1, 1, &options, &alone));
  const float *a = NULL, *b = NULL;
  size_t n_a = 0, n_b = 0;
  int32_t n_tokens = 0;
  OK(kvik_embeddings_get(together, 1, &a, &n_a, &n_tokens));
  OK(kvik_embeddings_get(alone, 0, &b, &n_b, NULL));
  CHECK(n_a == 64 && n_b == 64 && n_tokens == 5 && memcmp(a, b, n_a * sizeof *a) == 0);
  CHECK(kvik_embeddings_get(alone, 1, &b, &n_b, NULL) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_embeddings_free(alone);
  CHECK(kvik_embed(model, NULL, 1, &options, &alone) == KVIK_STATUS_BAD_ARGUMENT && alone == NULL);
  CHECK(kvik_generate_ids(model, NULL, first, 3, NULL, NULL) == KVIK_STATUS_UNSUPPORTED);
  kvik_embeddings_free(together);
  kvik_embeddings_free(NULL);
  kvik_model_free(model);
  model = load(fable);
  CHECK(kvik_embed_ids(model, both, lengths, 2, &options, &together) == KVIK_STATUS_UNSUPPORTED);
  kvik_model_free(model);
  return NULL;
}

static kvik_model* load_speech(const char* speech) {
  kvik_load_options options;
  kvik_load_options_init(&options, sizeof options);
  options.backend = KVIK_BACKEND_REFERENCE;
  kvik_model* model = NULL;
  return kvik_model_load(speech, &options, &model) == KVIK_STATUS_OK ? model : NULL;
}

const char* c_transcribes(const char* speech) {
  kvik_model* model = load_speech(speech);
  CHECK(model != NULL);
  enum { kSamples = 40000 };  // two and a half windows
  static float samples[kSamples];
  for (int i = 0; i < kSamples; ++i) samples[i] = (float)(i * 37 % 200 - 100) / 300.0f;
  kvik_translate_options decoding;
  kvik_translate_options_init(&decoding, sizeof decoding);
  decoding.max_tokens = 5;
  kvik_transcribe_options options;
  kvik_transcribe_options_init(&options, sizeof options);
  options.decoding = &decoding;
  kvik_transcription *whole = NULL, *second = NULL, *again = NULL;
  OK(kvik_transcribe(model, samples, kSamples, 16000, &options, &whole));
  OK(kvik_transcribe(model, samples + 16000, 16000, 16000, &options, &second));
  kvik_transcribed all = {.size = sizeof all}, alone = {.size = sizeof alone};
  OK(kvik_transcription_get(whole, &all));
  OK(kvik_transcription_get(second, &alone));
  CHECK(all.n_segments == 3 && all.n_timed == 0 && all.n_bytes == 0 && all.n_ids > 0);
  kvik_segment segment = {.size = sizeof segment};
  OK(kvik_transcription_get_segment(whole, 1, &segment));
  CHECK(segment.start_s == 1.0 && segment.end_s == 2.0 && segment.n_ids == alone.n_ids);
  CHECK(memcmp(segment.ids, alone.ids, alone.n_ids * sizeof *alone.ids) == 0);
  CHECK(kvik_transcription_get_segment(whole, 3, &segment) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_transcription_get_timed(whole, 0, &segment) == KVIK_STATUS_BAD_ARGUMENT);

  kvik_engine* engine = NULL;
  kvik_task* task = NULL;
  OK(kvik_engine_new(model, NULL, &engine));
  OK(kvik_engine_transcribe(engine, samples, kSamples, 16000, &options, NULL, &task));
  OK(kvik_task_get_transcription(task, &again));
  OK(kvik_transcription_get(again, &alone));
  CHECK(alone.n_ids == all.n_ids && memcmp(alone.ids, all.ids, all.n_ids * sizeof *all.ids) == 0);
  kvik_task_free(task);
  kvik_engine_free(engine);
  kvik_transcription_free(again);
  CHECK(kvik_transcribe_file(model, "/nowhere/a.wav", &options, &again) == KVIK_STATUS_IO && again == NULL);
  options.timestamps = true;
  CHECK(kvik_transcribe(model, samples, kSamples, 16000, &options, &again) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_transcription_free(second);
  kvik_transcription_free(whole);
  kvik_model_free(model);
  return NULL;
}

const char* c_scores(const char* fable) {
  kvik_model* model = load(fable);
  const int32_t ids[4] = {5, 6, 7, 8};
  double whole[4], windows[4], room[1];
  size_t n = 0;
  OK(kvik_score(model, ids, 4, 0, whole, 4, &n));
  CHECK(n == 3 && whole[0] < 0);
  OK(kvik_score(model, ids, 4, 2, windows, 4, &n));
  CHECK(n == 2 && windows[0] == whole[0] && windows[1] != whole[2]);
  CHECK(kvik_score(model, ids, 4, 0, room, 1, &n) == KVIK_STATUS_BUFFER_TOO_SMALL && n == 3);
  CHECK(kvik_score(model, ids, 1, 0, whole, 4, &n) == KVIK_STATUS_BAD_ARGUMENT);
  CHECK(kvik_score(NULL, ids, 4, 0, whole, 4, &n) == KVIK_STATUS_BAD_ARGUMENT);
  kvik_model_free(model);
  return NULL;
}
