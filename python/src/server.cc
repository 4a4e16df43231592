#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "call.h"
#include "keywords.h"
#include "kvik/serve.h"
#include "options.h"

namespace kvik::python {
namespace {

template <class Duration>
void take_seconds(Keywords& keywords, const char* name, Duration& target) {
  double seconds = -1;
  keywords.take(name, seconds);
  if (seconds >= 0) target = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

ServeOptions serve_options(const nb::kwargs& given, const nb::kwargs& load) {
  Keywords keywords("serve", given);
  ServeOptions options;
  options.load = load_options(load);
  options.log = options.load.log;
  keywords.take("host", options.host);
  keywords.take("port", options.port);
  if (options.port < 0 || options.port > 65535)
    throw Error(Code::kBadArgument, "port is " + std::to_string(options.port) + "; expected 0 (a free one) to 65535");
  keywords.take("api_key", options.api_key);
  keywords.take("insecure", options.insecure);
  keywords.take("cors", options.cors_origin);
  keywords.take("max_sequences", options.max_sequences);
  keywords.take("queue", options.queue);
  keywords.take("memory_bytes", options.memory_bytes);
  take_seconds(keywords, "idle_unload", options.idle_unload);
  take_seconds(keywords, "timeout", options.timeout);
  take_seconds(keywords, "grace", options.grace);
  keywords.take("max_connections", options.max_connections);
  keywords.take("max_tokens", options.max_tokens);
  keywords.take("max_body_bytes", options.max_body_bytes);
  keywords.finish();
  return options;
}

class ServerHandle {
 public:
  ServerHandle(const std::vector<std::string>& models, const ServeOptions& options)
      : server_(Call().run([&] { return std::make_unique<Server>(models, options); })) {}
  ~ServerHandle() { drop(server_); }
  Server& server() { return *server_; }

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace

void bind_server(nb::module_& module) {
  nb::class_<ServerHandle>(module, "Server")
      .def(
          "__init__",
          [](ServerHandle* self, const std::vector<std::string>& models, const nb::dict& options, const nb::dict& load) {
            new (self) ServerHandle(models, serve_options(nb::borrow<nb::kwargs>(options), nb::borrow<nb::kwargs>(load)));
          },
          nb::arg("models"), nb::arg("options"), nb::arg("load"))
      .def("port", [](ServerHandle& self) { return self.server().port(); })
      .def("url", [](ServerHandle& self) { return self.server().url(); })
      .def("stop", [](ServerHandle& self) { Call().run([&] { self.server().stop(); }); });
}

}  // namespace kvik::python
