#pragma once

#include <memory>

#include "server/service/exchange.h"
#include "server/service/metrics.h"
#include "server/service/registry.h"
#include "server/service/tasks.h"

namespace kvik::server {

// What the endpoints share.
struct Service {
  Service(const std::vector<std::string>& models, const ServeOptions& with);
  ~Service();  // when connections are closed: ends what still runs

  const ServeOptions options;
  MetricTable metrics;
  Tasks prepare;  // parsing, templates, tokenizing, large answers. Before the registry: what ends with a model is answered there
  Registry registry;
  std::atomic<bool> stopping{false};
  std::function<std::pair<size_t, size_t>()> connections;  // open ones, and those that were cut
  Tasks downloads;

  // `work` with the model, on a thread of `prepare`, once it is loaded. What is thrown becomes the answer. On any thread. A keep_alive is
  // set once the model is in use: before that, a time of 0 would unload it for the request to load it again.
  using WithModel = std::function<void(Registry::Handle)>;
  void with_model(const std::shared_ptr<Exchange>& exchange, const std::string& model, WithModel work,
                  std::optional<std::chrono::seconds> keep_alive = std::nullopt);
};

// Runs `work`; what it throws becomes the answer.
template <class Work>
void answer_errors(Exchange& exchange, const Work& work) {
  try {
    work();
  } catch (...) { exchange.fail(current_api_error()); }
}

}  // namespace kvik::server
