#include "api/c/boundary.h"

namespace kvik::c {
namespace {

// `submit` and `try_submit` pass the request to the engine; the second one returns nullopt if the queue is full.
template <class Handle, class Submit, class TrySubmit>
kvik_status submitted(const kvik_request_options* theirs, Handle** target, const Submit& submit, const TrySubmit& try_submit) {
  return guarded([&] {
    given(target, "the pointer for the handle") = nullptr;
    kvik_request_options ours = default_request_options();
    read_struct(theirs, ours, "kvik_request_options");
    const RequestOptions how = request_options(ours);
    if (!ours.no_wait) {
      *target = new Handle{submit(how)};
      return KVIK_STATUS_OK;
    }
    auto request = try_submit(how);
    if (!request) return fail(KVIK_STATUS_QUEUE_FULL, "the engine's queue is full; try again later");
    *target = new Handle{std::move(*request)};
    return KVIK_STATUS_OK;
  });
}

GenerateOptions read_generate_options(const kvik_generate_options* theirs) {
  kvik_generate_options ours = default_generate_options();
  read_struct(theirs, ours, "kvik_generate_options");
  return generate_options(ours);
}

kvik_status submitted_ids(kvik_engine* engine, const std::vector<TokenId>& ids, const kvik_generate_options* options,
                          const kvik_request_options* request, kvik_stream** stream) {
  Engine& runs = given(engine, "engine").engine;
  const GenerateOptions ours = read_generate_options(options);
  return submitted(
      request, stream, [&](const RequestOptions& how) { return runs.submit(ids, ours, how); },
      [&](const RequestOptions& how) { return runs.try_submit(ids, ours, how); });
}

kvik_status submitted_sources(kvik_engine* engine, const Sources& sources, const kvik_translate_options* options,
                              const kvik_request_options* request, kvik_task** task) {
  Engine& runs = given(engine, "engine").engine;
  const TranslateOptions ours = translate_options(options);
  return submitted(
      request, task, [&](const RequestOptions& how) { return runs.translate(sources, ours, how); },
      [&](const RequestOptions& how) { return runs.try_translate(sources, ours, how); });
}

kvik_status submitted_recording(kvik_engine* engine, const Recording& recording, const kvik_transcribe_options* options,
                                const kvik_request_options* request, kvik_task** task) {
  Engine& runs = given(engine, "engine").engine;
  const TranscribeOptions ours = transcribe_options(options);
  return submitted(
      request, task, [&](const RequestOptions& how) { return runs.transcribe(recording, ours, how); },
      [&](const RequestOptions& how) { return runs.try_transcribe(recording, ours, how); });
}

kvik_status submitted_texts(kvik_engine* engine, const Texts& texts, const kvik_embed_options* options, const kvik_request_options* request,
                            kvik_task** task) {
  Engine& runs = given(engine, "engine").engine;
  const EmbedOptions ours = embed_options(options);
  return submitted(
      request, task, [&](const RequestOptions& how) { return runs.embed(texts, ours, how); },
      [&](const RequestOptions& how) { return runs.try_embed(texts, ours, how); });
}

}  // namespace
}  // namespace kvik::c

using namespace kvik::c;

kvik_status kvik_engine_new(const kvik_model* model, const kvik_engine_options* options, kvik_engine** engine) {
  return guarded([&] {
    given(engine, "engine") = nullptr;
    *engine = new kvik_engine{kvik::Engine(given(model, "model").model, engine_options(options))};
  });
}

void kvik_engine_free(kvik_engine* engine) { delete engine; }

kvik_status kvik_engine_get_load(const kvik_engine* engine, kvik_engine_load* load) {
  return guarded([&] {
    const kvik::EngineLoad now = given(engine, "engine").engine.load();
    write_struct(load, {.size = 0, .running = now.running, .waiting = now.waiting, .preempted = now.preempted}, "load");
  });
}

kvik_status kvik_engine_submit(kvik_engine* engine, const char* prompt, const kvik_generate_options* options,
                               const kvik_request_options* request, kvik_stream** stream) {
  return guarded([&] {
    given(stream, "stream") = nullptr;
    const kvik::Model& model = given(engine, "engine").engine.model();
    std::vector<kvik::TokenId> ids = model.tokenize(&given(prompt, "prompt"));
    if (ids.empty()) ids = model.start_ids();
    return submitted_ids(engine, ids, options, request, stream);
  });
}

kvik_status kvik_engine_submit_ids(kvik_engine* engine, const int32_t* ids, size_t n_ids, const kvik_generate_options* options,
                                   const kvik_request_options* request, kvik_stream** stream) {
  return guarded([&] {
    given(stream, "stream") = nullptr;
    const std::span<const int32_t> prompt = list(ids, n_ids, "ids");
    return submitted_ids(engine, {prompt.begin(), prompt.end()}, options, request, stream);
  });
}

kvik_status kvik_engine_translate(kvik_engine* engine, const char* const* texts, size_t n_texts, const kvik_translate_options* options,
                                  const kvik_request_options* request, kvik_task** task) {
  return guarded([&] {
    given(task, "task") = nullptr;
    return submitted_sources(engine, text_list(texts, n_texts), options, request, task);
  });
}

kvik_status kvik_engine_translate_ids(kvik_engine* engine, const int32_t* const* sources, const size_t* n_ids, size_t n_sources,
                                      const kvik_translate_options* options, const kvik_request_options* request, kvik_task** task) {
  return guarded([&] {
    given(task, "task") = nullptr;
    return submitted_sources(engine, id_lists(sources, n_ids, n_sources), options, request, task);
  });
}

kvik_status kvik_engine_transcribe(kvik_engine* engine, const float* samples, size_t n_samples, int32_t sample_rate,
                                   const kvik_transcribe_options* options, const kvik_request_options* request, kvik_task** task) {
  return guarded([&] {
    given(task, "task") = nullptr;
    const std::span<const float> values = list(samples, n_samples, "samples");
    return submitted_recording(engine, kvik::Samples{{values.begin(), values.end()}, sample_rate}, options, request, task);
  });
}

kvik_status kvik_engine_transcribe_file(kvik_engine* engine, const char* wave_file, const kvik_transcribe_options* options,
                                        const kvik_request_options* request, kvik_task** task) {
  return guarded([&] {
    given(task, "task") = nullptr;
    return submitted_recording(engine, std::filesystem::path(&given(wave_file, "wave_file")), options, request, task);
  });
}

kvik_status kvik_engine_embed(kvik_engine* engine, const char* const* texts, size_t n_texts, const kvik_embed_options* options,
                              const kvik_request_options* request, kvik_task** task) {
  return guarded([&] {
    given(task, "task") = nullptr;
    return submitted_texts(engine, text_list(texts, n_texts), options, request, task);
  });
}

kvik_status kvik_engine_embed_ids(kvik_engine* engine, const int32_t* const* texts, const size_t* n_ids, size_t n_texts,
                                  const kvik_embed_options* options, const kvik_request_options* request, kvik_task** task) {
  return guarded([&] {
    given(task, "task") = nullptr;
    return submitted_texts(engine, id_lists(texts, n_ids, n_texts), options, request, task);
  });
}
