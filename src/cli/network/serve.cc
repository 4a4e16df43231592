#include "kvik/serve.h"

#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/validators.h"
#include "kvik/compile_cache.h"
#include "kvik/hub.h"

namespace kvik::cli {
namespace {

struct ServeCommand {
  ModelOptions model;
  std::vector<std::string> models;
  ServeOptions options;
  bool allow_pull = false;
  int header_timeout_ms = 10'000, body_timeout_ms = 60'000;
  int idle_unload_s = 0, timeout_s = 600, grace_s = 10;
};

// Blocks SIGTERM, which service managers send, so that it can be waited for. Threads that are created later inherit this.
class Termination {
 public:
  Termination() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Termination() { close(descriptor_); }
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  // Returns after SIGTERM or Ctrl-C.
  void wait() const {
    pollfd waited[] = {{descriptor_, POLLIN, 0}, {Interrupt::descriptor(), POLLIN, 0}};
    while (!Interrupt::happened() && (poll(waited, 2, -1) <= 0 || (waited[0].revents | waited[1].revents) == 0)) {}
  }

 private:
  int descriptor_;
};

void pull_model(const std::string& name, const std::function<void(std::string_view, int64_t, int64_t)>& progress,
                const std::function<bool()>& cancelled) {
  hub::PullOptions options;
  options.settings = hub::settings_of_environment();
  options.cancelled = cancelled;
  options.progress = [&](const hub::Progress& at) { progress(at.path, at.file_done, at.file_bytes); };
  if (hub::pull(name, options).cancelled) throw Error(Code::kIo, fmt::format("the download of {} was cancelled", name));
}

// By default each thread gets its own malloc arena, whose memory is never returned to the system; only the main arena is trimmed.
void use_one_arena() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
#endif
}

int serve(const ServeCommand& command, const Terminal& terminal) {
  use_one_arena();
  const Termination termination;
  const Interrupt interrupt;
  ServeOptions options = command.options;
  options.load = command.model.load;
  if (!command.model.no_compile_cache) options.load.compile_cache = default_compile_cache();
  options.load.profile = terminal.recording;
  options.idle_unload = std::chrono::seconds(command.idle_unload_s);
  options.timeout = std::chrono::seconds(command.timeout_s);
  options.header_timeout = std::chrono::milliseconds(command.header_timeout_ms);
  options.body_timeout = std::chrono::milliseconds(command.body_timeout_ms);
  options.grace = std::chrono::seconds(command.grace_s);
  const Log log = terminal.log();
  options.log = [log](LogLevel level, std::string_view message) { log.log(level, message); };
  if (!terminal.quiet) options.log_request = [](std::string_view line) { print_error_text(fmt::format("{}\n", line)); };
  if (const char* const key = std::getenv("KVIK_API_KEY"); key != nullptr && options.api_key.empty()) options.api_key = key;
  if (command.allow_pull) options.pull = pull_model;
  Server server(command.models, options);
  print_message("serving {} on {}", fmt::join(command.models, ", "), server.url());
  if (terminal.json) print_result("{{\"url\":\"{}\",\"port\":{}}}\n", server.url(), server.port());
  flush_output();
  termination.wait();
  if (!terminal.quiet) print_sentence("stopping");
  server.stop();
  return 0;
}

void add_limits(CLI::App& command, ServeCommand& serve) {
  ServeOptions& options = serve.options;
  command.add_option("--max-sequences", options.max_sequences, "Maximum number of generations that run together, per model")
      ->check(between(1, 65536))
      ->option_text("N");
  command.add_option("--queue", options.queue, "Maximum number of waiting generations per model; further requests get status 429")
      ->check(between(1, 1 << 20))
      ->option_text("N");
  command
      .add_option("--memory-bytes", options.memory_bytes,
                  "Memory limit for the weights and caches of all models, e.g. 8GB; 0: the free memory")
      ->transform(byte_count())
      ->option_text("N");
  command.add_option("--idle-unload", serve.idle_unload_s, "Unload a model after this idle time; 0: never")
      ->check(at_least(0))
      ->option_text("SECONDS");
  command.add_option("--timeout", serve.timeout_s, "Time limit of one request")->check(between(1, 1 << 30))->option_text("SECONDS");
  command.add_option("--grace", serve.grace_s, "Time that running requests have to finish when the server stops")
      ->check(between(0, 1 << 20))
      ->option_text("SECONDS");
  command.add_option("--max-connections", options.max_connections, "Maximum number of open connections")
      ->check(between(1, 1 << 20))
      ->option_text("N");
  command.add_option("--max-tokens", options.max_tokens, "Maximum number of new tokens per request")->check(at_least(1))->option_text("N");
  command.add_option("--header-timeout-ms", serve.header_timeout_ms, "Time limit for receiving the header of a request, in milliseconds")
      ->check(at_least(1))
      ->option_text("N");
  command.add_option("--body-timeout-ms", serve.body_timeout_ms, "Time limit for receiving the body of a request, in milliseconds")
      ->check(at_least(1))
      ->option_text("N");
  command
      .add_option("--max-body-bytes", options.max_body_bytes, "Maximum size of an uploaded recording; a JSON body may have a quarter of it")
      ->transform(byte_count())
      ->option_text("N");
}

}  // namespace

void add_serve(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("serve", "Serve models over HTTP to OpenAI and Ollama clients");
  auto options = std::make_shared<ServeCommand>();
  command->add_option("MODEL", options->models, "Folders, .onnx files, or names of models on the search path")
      ->required()
      ->option_text(" ");
  command->add_option("--host", options->options.host, "Address to listen on")->option_text("ADDRESS");
  command->add_option("--port", options->options.port, "Port to listen on; 0: a free one, which is printed")
      ->check(between(0, 65535))
      ->option_text("N");
  command->add_option("--api-key", options->options.api_key, "API key that clients must send; also KVIK_API_KEY")->option_text("KEY");
  command->add_flag("--insecure", options->options.insecure, "Allow other machines to connect without an API key");
  command->add_option("--cors", options->options.cors_origin, "Web origin whose pages may use the server; *: all")->option_text("ORIGIN");
  command->add_flag("--allow-pull", options->allow_pull, "Let clients download models through /api/pull");
  add_limits(*command, *options);
  add_load_options(*command, options->model, commands.terminal);
  command->callback([=] { commands.run = [=] { return serve(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
