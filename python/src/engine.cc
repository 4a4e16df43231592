#include "engine.h"

#include <cmath>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "convert.h"
#include "options.h"

namespace kvik::python {
namespace {

using StreamHandle = RequestHandle<Stream>;

std::chrono::milliseconds timeout_of(double seconds) {
  if (!(seconds >= 0)) throw Error(Code::kBadArgument, "timeout must be 0 (none) or a positive number of seconds");
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(std::min(seconds, 1e9) * 1e3)));
}

nb::object submit(const EngineHandle& self, nb::handle prompt, const std::string& user, double timeout_s, const nb::kwargs& given) {
  const std::vector<TokenId> ids = token_ids(prompt);
  GenerateOptions options = generate_options(given, Call());
  options.cancelled = nullptr;
  options.progress = nullptr;
  return submit_request(self, user, timeout_s, [&](Engine& engine, const RequestOptions& request) {
    std::optional<Stream> stream = engine.try_submit(ids, options, request);
    if (stream && stream->finish()) request.on_update();  // it ended before it began
    return stream;
  });
}

// (text, tokens, finish or None, timed_out); raises what ended the stream.
nb::tuple poll(StreamHandle& self) {
  self.signal().clear();
  StreamUpdate update = self.request().poll();
  if (update.error) std::rethrow_exception(update.error);
  nb::list tokens;
  for (GeneratedToken& token : update.tokens) tokens.append(nb::cast(std::move(token)));
  nb::object finish = update.finish ? nb::object(text_of(finish_name(*update.finish))) : nb::none();
  return nb::make_tuple(text_of(update.text), tokens, finish, update.timed_out);
}

}  // namespace

RequestOptions request_options(const std::string& user, double timeout_s, const std::shared_ptr<UpdateSignal>& signal) {
  return {.user = user, .timeout = timeout_of(timeout_s), .on_update = [signal] { signal->set(); }};
}

void bind_engine(nb::module_& module) {
  nb::class_<MailboxHandle>(module, "Mailbox")
      .def(nb::init<>())
      .def("descriptor", [](const MailboxHandle& self) { return self.mailbox->descriptor(); })
      .def(
          "take", [](const MailboxHandle& self) { return self.mailbox->take(); }, "The indices of requests with new data.");
  auto stream = nb::class_<StreamHandle>(module, "Stream");
  stream.def("poll", poll, nb::sig("def poll(self) -> tuple[str, list[GeneratedToken], str | None, bool]"))
      .def("prompt_ids", [](StreamHandle& self) { return array_of(self.request().prompt_ids()); })
      .def("ids", [](StreamHandle& self) { return array_of(self.request().ids()); })
      .def("metrics", [](StreamHandle& self) { return self.request().metrics(); });
  bind_request(stream);
  auto engine = nb::class_<EngineHandle>(module, "Engine");
  engine
      .def(
          "__init__",
          [](EngineHandle* self, const ModelHandle& model, const nb::kwargs& options) {
            new (self) EngineHandle(model, engine_options(options));
          },
          nb::arg("model"), nb::arg("options"))
      .def("submit", submit, nb::arg("ids"), nb::arg("user"), nb::arg("timeout"), nb::arg("options"),
           nb::sig("def submit(self, ids: object, user: str, timeout: float, **options: object) -> Stream | None"))
      .def("is_full", &EngineHandle::is_full)
      .def("close", &EngineHandle::close)
      .def("abandon", &EngineHandle::abandon)
      .def(
          "load",
          [](const EngineHandle& self) {
            const EngineLoad load = self.engine()->load();
            return nb::make_tuple(load.running, load.waiting, load.preempted);
          },
          nb::sig("def load(self) -> tuple[int, int, int]"));
  bind_tasks(module, engine);
}

}  // namespace kvik::python
