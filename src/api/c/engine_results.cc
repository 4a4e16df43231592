#include "api/c/boundary.h"

namespace kvik::c {
namespace {

// Waits for the result of a task and makes a handle of it.
template <class Result, class Handle>
kvik_status taken(kvik_task* task, const char* kind, Handle** target) {
  return guarded([&] {
    given(target, "the pointer for the result") = nullptr;
    Task<Result>* const found = std::get_if<Task<Result>>(&given(task, "task").task);
    if (found == nullptr) throw Error(Code::kBadArgument, fmt::format("the task is of another kind; its result is not {}", kind));
    *target = new Handle{found->get()};
  });
}

}  // namespace
}  // namespace kvik::c

using namespace kvik::c;

kvik_status kvik_stream_next(kvik_stream* stream, const char** text, size_t* n_bytes) {
  return guarded([&] {
    kvik_stream& reads = given(stream, "stream");
    given(text, "text") = nullptr;
    given(n_bytes, "n_bytes") = 0;
    const std::optional<std::string_view> piece = reads.stream.next();
    if (!piece) return;
    const size_t before = reads.text.size();
    reads.text += *piece;
    *text = reads.text.c_str() + before;
    *n_bytes = piece->size();
  });
}

kvik_status kvik_stream_poll(kvik_stream* stream, kvik_stream_update* update) {
  return guarded([&] {
    kvik_stream& reads = given(stream, "stream");
    given(update, "update");
    const kvik::StreamUpdate found = reads.stream.poll();
    const size_t before = reads.text.size();
    reads.text += found.text;
    if (found.error != nullptr) std::rethrow_exception(found.error);
    write_struct(update,
                 {.size = 0,
                  .text = reads.text.c_str() + before,
                  .n_bytes = found.text.size(),
                  .has_ended = found.finish.has_value(),
                  .finish = static_cast<kvik_finish>(found.finish.value_or(kvik::Finish::kStop)),
                  .timed_out = found.timed_out},
                 "update");
  });
}

kvik_status kvik_stream_get(kvik_stream* stream, kvik_generated* generated) {
  return guarded([&] {
    kvik_stream& reads = given(stream, "stream");
    reads.ids = reads.stream.ids();
    write_generated(
        {reads.text, reads.ids, reads.stream.prompt_ids(), reads.stream.finish().value_or(kvik::Finish::kStop), reads.stream.metrics()},
        generated);
  });
}

kvik_status kvik_stream_cancel(kvik_stream* stream) {
  return guarded([&] { given(stream, "stream").stream.cancel(); });
}

void kvik_stream_free(kvik_stream* stream) { delete stream; }

kvik_status kvik_task_is_done(const kvik_task* task, bool* is_done) {
  return guarded(
      [&] { given(is_done, "is_done") = std::visit([](const auto& each) { return each.is_done(); }, given(task, "task").task); });
}

kvik_status kvik_task_get_translations(kvik_task* task, kvik_translations** translations) {
  return taken<std::vector<kvik::Translation>>(task, "translation", translations);
}

kvik_status kvik_task_get_transcription(kvik_task* task, kvik_transcription** transcription) {
  return taken<kvik::Transcription>(task, "transcription", transcription);
}

kvik_status kvik_task_get_embeddings(kvik_task* task, kvik_embeddings** embeddings) {
  return taken<std::vector<kvik::Embedding>>(task, "embedding", embeddings);
}

kvik_status kvik_task_cancel(kvik_task* task) {
  return guarded([&] { std::visit([](auto& each) { each.cancel(); }, given(task, "task").task); });
}

void kvik_task_free(kvik_task* task) { delete task; }
