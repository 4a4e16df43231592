#include "kvik/engine.h"

#include <cmath>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "convert.h"
#include "mailbox.h"
#include "model.h"
#include "options.h"

namespace kvik::python {
namespace {

// Shared with what the engine calls, which needs no GIL then.
struct MailboxHandle {
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
};

class EngineHandle {
 public:
  EngineHandle(const ModelHandle& model, const EngineOptions& options)
      : engine_(Call().run([&] { return std::make_shared<Engine>(model.model(), options); })) {}
  ~EngineHandle() { close(); }

  // Cancels what runs. Streams can still be read afterwards.
  void close() { drop(engine_); }
  const std::shared_ptr<Engine>& engine() const {
    if (engine_ == nullptr) throw Error(Code::kBadArgument, "the engine was closed");
    return engine_;
  }

 private:
  std::shared_ptr<Engine> engine_;
};

// A generation of an engine.
class StreamHandle {
 public:
  StreamHandle(Stream stream, std::shared_ptr<News> news) : stream_(std::move(stream)), news_(std::move(news)) {}
  StreamHandle(StreamHandle&&) = default;
  StreamHandle& operator=(StreamHandle&&) = delete;
  ~StreamHandle() {
    const ReleasedGil released;
    stream_.reset();
    news_.reset();
  }
  Stream& stream() { return *stream_; }
  News& news() { return *news_; }

 private:
  std::optional<Stream> stream_;
  std::shared_ptr<News> news_;  // shared with what the engine calls
};

std::chrono::milliseconds timeout_of(double seconds) {
  if (!(seconds >= 0)) throw Error(Code::kBadArgument, "timeout must be 0 (none) or a positive number of seconds");
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(std::min(seconds, 1e9) * 1e3)));
}

// The queue is bounded: None if it is full.
nb::object submit(const EngineHandle& self, nb::handle prompt, const std::string& user, double timeout_s, const nb::kwargs& given) {
  const std::vector<TokenId> ids = token_ids(prompt);
  GenerateOptions options = generate_options(given, Call());
  options.cancelled = nullptr;
  options.progress = nullptr;
  const auto news = std::make_shared<News>();
  const RequestOptions request{.user = user, .timeout = timeout_of(timeout_s), .on_update = [news] { news->put(); }};
  const std::shared_ptr<Engine> engine = self.engine();
  std::optional<Stream> stream = Call().run([&] { return engine->try_submit(ids, options, request); });
  if (!stream) return nb::none();
  if (stream->finish()) news->put();  // it ended before it began
  return nb::cast(StreamHandle(std::move(*stream), news));
}

// (text, tokens, finish or None, timed_out); raises what ended the stream.
nb::tuple poll(StreamHandle& self) {
  self.news().seen();
  StreamUpdate update = self.stream().poll();
  if (update.error) std::rethrow_exception(update.error);
  nb::list tokens;
  for (GeneratedToken& token : update.tokens) tokens.append(nb::cast(std::move(token)));
  nb::object finish = update.finish ? nb::object(text_of(finish_name(*update.finish))) : nb::none();
  return nb::make_tuple(text_of(update.text), tokens, finish, update.timed_out);
}

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<MailboxHandle>(module, "Mailbox")
      .def(nb::init<>())
      .def("descriptor", [](const MailboxHandle& self) { return self.mailbox->descriptor(); })
      .def(
          "take", [](const MailboxHandle& self) { return self.mailbox->take(); }, "The numbers of streams that have news.");
  nb::class_<StreamHandle>(module, "Stream")
      .def("poll", poll, nb::sig("def poll(self) -> tuple[str, list[GeneratedToken], str | None, bool]"))
      .def(
          "wait", [](StreamHandle& self, int ms) { return Call().run([&] { return self.news().wait(std::chrono::milliseconds(ms)); }); },
          nb::arg("ms"), "Whether there is news after at most so many milliseconds.")
      .def(
          "send_news_to",
          [](StreamHandle& self, const MailboxHandle* box, int64_t number) {
            self.news().send_to(box == nullptr ? nullptr : box->mailbox, number);
          },
          nb::arg("mailbox").none(), nb::arg("number"))
      .def("cancel", [](StreamHandle& self) { self.stream().cancel(); })
      .def("prompt_ids", [](StreamHandle& self) { return array_of(self.stream().prompt_ids()); })
      .def("ids", [](StreamHandle& self) { return array_of(self.stream().ids()); })
      .def("metrics", [](StreamHandle& self) { return self.stream().metrics(); });
  nb::class_<EngineHandle>(module, "Engine")
      .def(
          "__init__",
          [](EngineHandle* self, const ModelHandle& model, const nb::kwargs& options) {
            new (self) EngineHandle(model, engine_options(options));
          },
          nb::arg("model"), nb::arg("options"))
      .def("submit", submit, nb::arg("ids"), nb::arg("user"), nb::arg("timeout"), nb::arg("options"),
           nb::sig("def submit(self, ids: object, user: str, timeout: float, **options: object) -> Stream | None"))
      .def("close", &EngineHandle::close)
      .def(
          "load",
          [](const EngineHandle& self) {
            const EngineLoad load = self.engine()->load();
            return nb::make_tuple(load.running, load.waiting, load.preempted);
          },
          nb::sig("def load(self) -> tuple[int, int, int]"));
}

}  // namespace kvik::python
