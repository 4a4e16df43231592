#include "server/operations.h"

#include "kvik/version.h"

namespace kvik::server {
namespace {

// Shown from the start, so that their first change is seen as one.
constexpr const char* kCounters[] = {"kvik_rejections_total",    "kvik_cancelled_total",   "kvik_prompt_tokens_total",
                                     "kvik_reused_tokens_total", "kvik_prefix_hits_total", "kvik_generated_tokens_total"};
constexpr const char* kHistograms[] = {"kvik_first_token_seconds", "kvik_token_seconds", "kvik_mask_seconds"};

}  // namespace

void health(Service& service, const std::shared_ptr<Exchange>& exchange) {
  int n_loaded = 0, n_running = 0, n_waiting = 0;
  for (const Registry::Status& model : service.registry.list()) {
    if (model.loaded == nullptr) continue;
    ++n_loaded;
    const EngineLoad load = model.loaded->engine->load();
    n_running += load.running;
    n_waiting += load.waiting;
  }
  const bool ready = !service.stopping;
  const Json json = {{"status", ready ? "ok" : "stopping"}, {"live", true},         {"ready", ready},      {"version", kVersion},
                     {"models_loaded", n_loaded},           {"running", n_running}, {"waiting", n_waiting}};
  exchange->send(Response{ready ? 200 : 503, dump(json)});
}

void health_live(Service&, const std::shared_ptr<Exchange>& exchange) { exchange->send({{"status", "ok"}, {"live", true}}); }

void metrics(Service& service, const std::shared_ptr<Exchange>& exchange) {
  MetricTable& table = service.metrics;
  for (const Registry::Status& model : service.registry.list()) {
    const Labels labels = {{"model", model.facts.name}};
    table.set("kvik_model_loaded", labels, model.loaded != nullptr ? 1 : 0);
    const CacheUse cache = model.loaded != nullptr ? model.loaded->model.cache_use() : CacheUse();
    table.set("kvik_weights_bytes", labels, model.loaded != nullptr ? static_cast<double>(model.loaded->model.weights_bytes()) : 0);
    table.set("kvik_cache_used_bytes", labels, static_cast<double>(cache.used_bytes));
    table.set("kvik_cache_prefix_bytes", labels, static_cast<double>(cache.prefix_bytes));
    table.set("kvik_cache_allocated_bytes", labels, static_cast<double>(cache.allocated_bytes));
    table.set("kvik_cache_limit_bytes", labels, static_cast<double>(cache.limit_bytes));
    const EngineLoad load = model.loaded != nullptr ? model.loaded->engine->load() : EngineLoad();
    table.set("kvik_running", labels, load.running);
    table.set("kvik_waiting", labels, load.waiting);
    table.set_counter("kvik_preempted_total", labels, static_cast<double>(load.preempted));
    for (const char* name : kCounters) table.add(name, labels, 0);
    for (const char* name : kHistograms) table.declare_histogram(name, labels);
  }
  if (service.connections) {
    const auto [n_open, n_cut] = service.connections();
    table.set("kvik_connections", {}, static_cast<double>(n_open));
    table.set_counter("kvik_connections_cut_total", {}, static_cast<double>(n_cut));
  }
  table.set_counter("kvik_model_loads_total", {}, static_cast<double>(service.registry.n_loads()));
  table.set_counter("kvik_model_unloads_total", {}, static_cast<double>(service.registry.n_unloads()));
  exchange->send(Response{.body = table.text(), .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

}  // namespace kvik::server
