#include "server/service/service.h"

namespace kvik::server {
namespace {

constexpr size_t kPrepareThreads = 2, kMostPreparing = 4096;
constexpr size_t kDownloadThreads = 2, kMostDownloads = 64;

ApiError overloaded() { return {429, "rate_limit_exceeded", "too many requests are waiting; try again later"}; }

}  // namespace

Service::Service(const std::vector<std::string>& models, const ServeOptions& with)
    : options(with), prepare(kPrepareThreads, kMostPreparing), registry(models, options), downloads(kDownloadThreads, kMostDownloads) {
  metrics.describe("kvik_requests_total", "Answered requests.");
  metrics.describe("kvik_request_seconds", "Time from the header of a request to the end of its answer.");
  metrics.describe("kvik_rejections_total", "Requests refused because too many are waiting.");
  metrics.describe("kvik_cancelled_total", "Generations that were cancelled because the client disconnected or the request timed out.");
  metrics.describe("kvik_prompt_tokens_total", "Tokens of prompts that were computed.");
  metrics.describe("kvik_reused_tokens_total", "Tokens of prompts that were found in the cache.");
  metrics.describe("kvik_prefix_hits_total", "Generations that reused a cached prefix.");
  metrics.describe("kvik_generated_tokens_total", "Generated tokens.");
  metrics.describe("kvik_first_token_seconds", "Time from the submission of a generation to its first token.");
  metrics.describe("kvik_token_seconds", "Time between two tokens of a generation.");
  metrics.describe("kvik_mask_seconds", "Time per token to find the tokens that a constraint allows, by generation.");
  metrics.describe("kvik_running", "Generations that run.");
  metrics.describe("kvik_waiting", "Generations that wait.");
  metrics.describe("kvik_preempted_total", "Times that a cache was freed for other generations.");
  metrics.describe("kvik_cache_used_bytes", "Pages of the KV cache in use, including cached prefixes.");
  metrics.describe("kvik_cache_prefix_bytes", "Of these, kept for later requests only.");
  metrics.describe("kvik_cache_allocated_bytes", "Memory of the KV cache.");
  metrics.describe("kvik_cache_limit_bytes", "Limit of the KV cache; 0: none.");
  metrics.describe("kvik_weights_bytes", "Weights of a loaded model.");
  metrics.describe("kvik_model_loaded", "1 if the model is loaded.");
  metrics.describe("kvik_model_loads_total", "Times that a model was loaded.");
  metrics.describe("kvik_model_unloads_total", "Times that a model was unloaded.");
  metrics.describe("kvik_connections", "Open connections.");
  metrics.describe("kvik_connections_cut_total", "Connections closed because they were too slow or too many.");
}

// What is being prepared may ask for a model; after that only models that run do anything.
Service::~Service() { prepare.wait_until_idle(); }

void Service::with_model(const std::shared_ptr<Exchange>& exchange, const std::string& model, WithModel work,
                         std::optional<std::chrono::seconds> keep_alive) {
  registry.acquire(model, [this, exchange, work = std::move(work), keep_alive](Registry::Handle handle, std::exception_ptr error) {
    auto task = [this, exchange, work, handle, error, keep_alive] {
      answer_errors(*exchange, [&] {
        if (error) std::rethrow_exception(error);
        exchange->model = handle->facts.name;
        if (keep_alive) registry.set_keep_alive(handle->facts.name, *keep_alive);
        work(handle);
      });
    };
    if (!prepare.try_post(std::move(task))) exchange->fail(overloaded());
  });
}

}  // namespace kvik::server
