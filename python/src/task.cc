#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "convert.h"
#include "engine.h"
#include "inputs.h"
#include "options.h"

// Requests of an engine whose result is there at their end.
namespace kvik::python {
namespace {

constexpr const char* kTranslateSignature =
    "def translate(self, sources: object, user: str, timeout: float, **options: object) -> TranslationTask | None";
constexpr const char* kTranscribeSignature =
    "def transcribe(self, audio: object, sample_rate: int, user: str, timeout: float, **options: object) -> TranscriptionTask | None";
constexpr const char* kEmbedSignature =
    "def embed(self, texts: object, user: str, timeout: float, **options: object) -> EmbeddingTask | None";
constexpr const char* kScoreSignature = "def score(self, ids: object, user: str, timeout: float, **options: object) -> ScoreTask | None";

// Nobody is asked between steps: signals and progress belong to the thread that waits.
template <class Options>
Options unwatched(Options options) {
  options.progress = nullptr;
  options.cancelled = nullptr;
  return options;
}
TranscribeOptions unwatched(TranscribeOptions options) {
  options.decoding = unwatched(std::move(options.decoding));
  return options;
}

nb::object translate_task(const EngineHandle& self, nb::handle list, const std::string& user, double timeout_s, const nb::kwargs& given) {
  Sources sources = sources_of(list);
  return submit_request(self, user, timeout_s,
                        [&, options = unwatched(translate_options(given, Call()))](Engine& engine, const auto& request) {
                          return engine.try_translate(std::move(sources), options, request);
                        });
}

nb::object transcribe_task(const EngineHandle& self, nb::handle audio, int sample_rate, const std::string& user, double timeout_s,
                           const nb::kwargs& given) {
  Recording recording = recording_of(audio, sample_rate);
  return submit_request(self, user, timeout_s,
                        [&, options = unwatched(transcribe_options(given, Call()))](Engine& engine, const auto& request) {
                          return engine.try_transcribe(std::move(recording), options, request);
                        });
}

nb::object embed_task(const EngineHandle& self, nb::handle list, const std::string& user, double timeout_s, const nb::kwargs& given) {
  Texts texts = texts_of(list);
  return submit_request(self, user, timeout_s, [&, options = unwatched(embed_options(given, Call()))](Engine& engine, const auto& request) {
    return engine.try_embed(std::move(texts), options, request);
  });
}

nb::object score_task(const EngineHandle& self, nb::handle given_ids, const std::string& user, double timeout_s, const nb::kwargs& given) {
  std::vector<TokenId> ids = token_ids(given_ids);
  return submit_request(self, user, timeout_s, [&, options = unwatched(score_options(given, Call()))](Engine& engine, const auto& request) {
    return engine.try_score(std::move(ids), options, request);
  });
}

// None: it was cancelled or timed out. Waits if it is not done.
template <class Result>
nb::object take_result(RequestHandle<Task<Result>>& self) {
  Result result = Call().run([&] { return self.request().get(); });
  if (self.request().was_cancelled()) return nb::none();
  if constexpr (std::is_same_v<Result, std::vector<Embedding>>)
    return nb::cast(matrix_of(result));
  else
    return nb::cast(std::move(result));
}

template <class Result>
void bind_task(nb::module_& module, const char* name, const nb::sig& result) {
  using Handle = RequestHandle<Task<Result>>;
  auto type = nb::class_<Handle>(module, name);
  type.def("is_done", [](Handle& self) { return self.request().is_done(); })
      .def("result", take_result<Result>, result, "May be called once. None: cancelled or timed out.")
      .def("timed_out", [](Handle& self) { return self.request().timed_out(); });
  bind_request(type);
}

}  // namespace

void bind_tasks(nb::module_& module, nb::class_<EngineHandle>& engine) {
  bind_task<std::vector<Translation>>(module, "TranslationTask", nb::sig("def result(self) -> list[Translation] | None"));
  bind_task<Transcription>(module, "TranscriptionTask", nb::sig("def result(self) -> Transcription | None"));
  bind_task<std::vector<Embedding>>(module, "EmbeddingTask", nb::sig("def result(self) -> NDArray[numpy.float32] | None"));
  bind_task<Score>(module, "ScoreTask", nb::sig("def result(self) -> Score | None"));
  engine
      .def("translate", translate_task, nb::arg("sources"), nb::arg("user"), nb::arg("timeout"), nb::arg("options"),
           nb::sig(kTranslateSignature))
      .def("transcribe", transcribe_task, nb::arg("audio"), nb::arg("sample_rate"), nb::arg("user"), nb::arg("timeout"), nb::arg("options"),
           nb::sig(kTranscribeSignature))
      .def("embed", embed_task, nb::arg("texts"), nb::arg("user"), nb::arg("timeout"), nb::arg("options"), nb::sig(kEmbedSignature))
      .def("score", score_task, nb::arg("ids"), nb::arg("user"), nb::arg("timeout"), nb::arg("options"), nb::sig(kScoreSignature));
}

}  // namespace kvik::python
