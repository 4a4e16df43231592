#pragma once

#include <memory>
#include <string>

#include "call.h"
#include "kvik/engine.h"
#include "mailbox.h"
#include "model.h"

namespace kvik::python {

// Shared with what the engine calls, which needs no GIL then.
struct MailboxHandle {
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
};

class EngineHandle {
 public:
  EngineHandle(const ModelHandle& model, const EngineOptions& options)
      : max_queue_(options.max_queue), engine_(Call().run([&] { return std::make_shared<Engine>(model.model(), options); })) {}
  ~EngineHandle() { close(); }

  // Cancels what runs. Streams and tasks can still be read afterwards.
  void close() { drop(engine_); }
  // In a forked process, whose parent has the engine's thread: the engine is never destroyed, because there is no thread to join.
  void abandon() { static_cast<void>(new std::shared_ptr<Engine>(std::move(engine_))); }
  const std::shared_ptr<Engine>& engine() const {
    if (engine_ == nullptr) throw Error(Code::kBadArgument, "the engine was closed");
    return engine_;
  }
  // A request that is submitted now is likely to be refused.
  bool is_full() const { return engine()->load().waiting >= max_queue_; }

 private:
  int max_queue_;
  std::shared_ptr<Engine> engine_;
};

// A request of an engine (Stream or Task), and its signal, which the engine's callback shares.
template <class Request>
class RequestHandle {
 public:
  RequestHandle(Request request, std::shared_ptr<UpdateSignal> signal) : request_(std::move(request)), signal_(std::move(signal)) {}
  RequestHandle(RequestHandle&&) = default;
  RequestHandle& operator=(RequestHandle&&) = delete;
  ~RequestHandle() {
    const ReleasedGil released;
    request_.reset();
    signal_.reset();
  }
  Request& request() { return *request_; }
  UpdateSignal& signal() { return *signal_; }

 private:
  std::optional<Request> request_;
  std::shared_ptr<UpdateSignal> signal_;
};

RequestOptions request_options(const std::string& user, double timeout_s, const std::shared_ptr<UpdateSignal>& signal);

// The methods of all requests: waiting and cancelling.
template <class Request>
void bind_request(nb::class_<RequestHandle<Request>>& type) {
  using Handle = RequestHandle<Request>;
  type.def(
          "wait", [](Handle& self, int ms) { return Call().run([&] { return self.signal().wait(std::chrono::milliseconds(ms)); }); },
          nb::arg("ms"), "Waits for new data for at most this many milliseconds; returns whether there is any.")
      .def(
          "signal_to",
          [](Handle& self, const MailboxHandle* box, int64_t number) {
            self.signal().send_to(box == nullptr ? nullptr : box->mailbox, number);
          },
          nb::arg("mailbox").none(), nb::arg("number"))
      .def("cancel", [](Handle& self) { self.request().cancel(); });
}

// Submits without the GIL. The queue is bounded: None if it is full.
template <class Submit>
nb::object submit_request(const EngineHandle& self, const std::string& user, double timeout_s, const Submit& submit) {
  const auto signal = std::make_shared<UpdateSignal>();
  const RequestOptions request = request_options(user, timeout_s, signal);
  const std::shared_ptr<Engine> engine = self.engine();
  auto submitted = Call().run([&] { return submit(*engine, request); });
  if (!submitted) return nb::none();
  return nb::cast(RequestHandle(std::move(*submitted), signal));
}

void bind_tasks(nb::module_& module, nb::class_<EngineHandle>& engine);

}  // namespace kvik::python
