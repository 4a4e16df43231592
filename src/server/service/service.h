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

  const ServeOptions options;
  MetricTable metrics;
  Registry registry;
  std::atomic<bool> stopping{false};
  std::function<std::pair<size_t, size_t>()> connections;  // open ones, and those that were cut
  Tasks prepare;                                           // parsing, templates, tokenizing
  Tasks compute;                                           // models that run outside of an engine: translation, speech, embeddings

  // `work` with the model, on a thread of `prepare`, once it is loaded. What is thrown becomes the answer. On any thread.
  using WithModel = std::function<void(Registry::Handle)>;
  void with_model(const std::shared_ptr<Exchange>& exchange, const std::string& model, WithModel work);
  // `work` on a thread of `compute`; throws ApiError(429) if too much waits.
  void run_model(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
};

// Runs `work`; what it throws becomes the answer.
template <class Work>
void answer_errors(Exchange& exchange, const Work& work) {
  try {
    work();
  } catch (...) { exchange.fail(current_api_error()); }
}

}  // namespace kvik::server
