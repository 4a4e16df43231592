#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/engine.h"
#include "kvik/serve.h"
#include "kvik/text.h"
#include "server/service/model_facts.h"

namespace kvik::server {

struct LoadedModel {
  ModelFacts facts;
  Model model;
  std::unique_ptr<Engine> engine;
  ChatTemplate chat_template;
  std::chrono::system_clock::time_point loaded_at;

  bool continues_prompts() const { return model.can_generate() && !model.has_encoder(); }
  bool has_chat_template() const { return !chat_template.empty() && chat_template.fault().empty(); }
};

// The models of a server. They share one memory budget: a model is loaded on first use, and idle models are unloaded to make room, the
// least recently used first. Any thread may call.
class Registry {
 public:
  // Throws Error for a model that cannot be found or whose files cannot be read.
  Registry(const std::vector<std::string>& models, const ServeOptions& options);
  ~Registry();  // when no model is in use any more
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // A model is not unloaded while a handle to it exists.
  using Handle = std::shared_ptr<const LoadedModel>;
  // Calls `ready` at once if the model is loaded, else later on the thread that loads it, so it must be fast. Its second argument is the
  // error if loading failed. Throws ApiError(404) for an unknown name.
  void acquire(std::string_view name, std::function<void(Handle, std::exception_ptr)> ready);
  Handle load_now(std::string_view name);  // waits

  // How long a model stays loaded after its last use, instead of ServeOptions::idle_unload; negative: forever. Valid until it is unloaded.
  void set_keep_alive(std::string_view name, std::chrono::seconds time);
  void unload(std::string_view name);  // after its last request

  struct Status {
    ModelFacts facts;
    Handle loaded;                                                   // null: it is not loaded. Does not count as use
    std::optional<std::chrono::system_clock::time_point> unload_at;  // if it is loaded and idle, and will be unloaded
  };
  std::vector<Status> list() const;                      // in the order of the command line
  const ModelFacts& facts(std::string_view name) const;  // throws ApiError(404)
  bool has(std::string_view name) const;
  bool add(const std::string& model);  // as on the command line; false if there is a model of this name
  int64_t n_loads() const;
  int64_t n_unloads() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kvik::server
