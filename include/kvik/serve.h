#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/options.h"

// The HTTP server of `kvik serve`: the APIs of OpenAI and Ollama on top of kvik/engine.h. It is a separate library, kvik_server.
namespace kvik {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8080;          // 0: a free one
  std::string api_key;      // clients must send it; required to listen to other machines
  bool insecure = false;    // listen to other machines without a key
  std::string cors_origin;  // web pages of this origin may use the server; "*": of any origin; empty: only its own page

  LoadOptions load;                     // of every model
  int max_sequences = 64;               // generations that run together, per model
  int queue = 1024;                     // waiting requests per model; further ones are refused with status 429
  size_t memory_bytes = 0;              // limit for the weights and caches of all loaded models; 0: the available memory
  std::chrono::seconds idle_unload{0};  // a model that is idle for so long is unloaded; 0: never
  std::chrono::seconds timeout{600};    // of one request
  std::chrono::seconds grace{10};       // for running requests when the server stops

  int max_connections = 4096;
  int max_choices = 16;               // n and best_of
  int max_tokens = 1 << 20;           // maximum new tokens of a request
  size_t max_body_bytes = 32 << 20;   // of a recording; JSON may have a quarter of it
  size_t max_prompt_bytes = 4 << 20;  // of text, after the chat template
  size_t max_schema_bytes = 256 << 10;
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};

  // Downloads a model for /api/pull, which is refused without it. `progress` gets the bytes of a file; `cancelled` is polled.
  std::function<void(const std::string& name, const std::function<void(std::string_view file, int64_t done, int64_t total)>& progress,
                     const std::function<bool()>& cancelled)>
      pull;
  std::function<void(LogLevel, std::string_view message)> log;  // of the server and of its models
  std::function<void(std::string_view json_line)> log_request;  // one line per request, without its text
};

// The constructor loads the first model and starts listening; other models are loaded on first use. Throws Error if a model or the
// address cannot be used.
class Server {
 public:
  Server(const std::vector<std::string>& models, const ServeOptions& options);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8080"
  // Refuses new requests, lets running ones end within the grace time, then cancels the rest.
  void stop();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace kvik
