#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <thread>

#include "base/new_file.h"
#include "cli/bench_runs.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/validators.h"
#include "kvik/inspect.h"

namespace kvik::cli {
namespace {

// The machine that the results are compared with.
struct Setting {
  int n_threads;
  double bandwidth;    // GB/s
  double cache_bytes;  // of the last level; 0: of a GPU
};

// The size of the processor's last-level cache; 0 if unknown.
double last_level_cache_bytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");  // "32768K"
  double kilobytes = 0;
  file >> kilobytes;
  return kilobytes * 1024;
}

// Weights that fit into the processor's caches are not read from memory, so a share of its bandwidth would be meaningless.
bool is_from_cache(const Figure& figure, const Setting& setting) {
  const double gb_per_s = figure.bytes_per_token * figure.tokens_per_s / 1e9;
  return figure.bytes_per_token > 0 && (figure.bytes_per_token <= setting.cache_bytes || gb_per_s > setting.bandwidth);
}

std::string share_text(const Figure& figure, const Setting& setting) {
  if (figure.bytes_per_token <= 0) return {};
  if (is_from_cache(figure, setting)) return "from cache";
  return fmt::format("{:.0f} %", 100 * figure.bytes_per_token * figure.tokens_per_s / 1e9 / setting.bandwidth);
}

// A fork takes less than a thousandth of one.
std::string milliseconds(double ms) { return fmt::format("{:.{}f}", ms, ms < 0.01 ? 6 : 3); }

void print_table(const std::vector<Figure>& figures, const Setting& setting) {
  print_result("{:<26} {:>10} {:>10} {:>10} {:>9} {:>8} {:>10}\n", "", "tokens/s", "p50 ms", "p95 ms", "MB/token", "GB/s", "share");
  for (const Figure& figure : figures) {
    const double gb_per_s = figure.bytes_per_token * figure.tokens_per_s / 1e9;
    const bool bound = figure.bytes_per_token > 0;
    const bool compares = figure.more.contains("speed_up_by_cache");
    print_result("{:<26} {:>10} {:>10} {:>10} {:>9} {:>8} {:>10}{}\n", figure.what,
                 figure.tokens_per_s > 0 ? fmt::format("{:.1f}", figure.tokens_per_s) : "", milliseconds(figure.p50_ms),
                 milliseconds(figure.p95_ms), bound ? fmt::format("{:.1f}", figure.bytes_per_token / 1e6) : "",
                 bound ? fmt::format("{:.1f}", gb_per_s) : "", share_text(figure, setting),
                 compares ? fmt::format("  cache is {:.1f} times as fast", figure.more["speed_up_by_cache"].get<double>()) : "");
  }
}

Json results_json(const std::vector<Figure>& figures, const Setting& setting) {
  Json results = Json::array();
  for (const Figure& figure : figures) {
    const double gb_per_s = figure.bytes_per_token * figure.tokens_per_s / 1e9;
    Json entry = {{"what", figure.what},
                  {"tokens_per_s", figure.tokens_per_s},
                  {"bytes_per_token", figure.bytes_per_token},
                  {"gb_per_s", gb_per_s},
                  {"share_of_bandwidth", gb_per_s / setting.bandwidth},
                  {"p50_ms", figure.p50_ms},
                  {"p95_ms", figure.p95_ms},
                  {"from_cache", is_from_cache(figure, setting)}};
    entry.update(figure.more);
    results.push_back(std::move(entry));
  }
  return results;
}

int bench(const BenchOptions& options, const Terminal& terminal) {
  ModelOptions fresh = options.model;
  fresh.load.reuse_prefixes = false;  // every prompt is computed, also the second time
  const Model model = load_model(fresh, terminal);
  if (model.has_encoder()) throw Error(Code::kUnsupported, "bench measures decoders; this model is an encoder-decoder");
  const int n_threads =
      options.model.load.threads > 0 ? options.model.load.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const Interrupt interrupt;
  terminal.log().info("measuring");
  BenchRuns runs(model, options, terminal);
  const std::vector<Figure> figures = runs.run();
  const size_t peak_bytes = peak_resident_bytes();  // before the measurement of the bandwidth, which allocates much
  const bool on_cpu = model.device() == "cpu";
  const Setting setting{n_threads, measure_bandwidth_gb_per_s(model, n_threads), on_cpu ? last_level_cache_bytes() : 0.0};
  const std::string where = fmt::format("{} on {}, {} threads", model.backend(), model.device(), n_threads);
  if (!options.plot.empty()) write_file(options.plot, bench_plot(fmt::format("{}: {}", options.model.model, where), figures));
  if (terminal.json) {
    print_result("{}\n", Json{{"backend", model.backend()},
                              {"threads", n_threads},
                              {"device", model.device()},
                              {"bandwidth_gb_per_s", setting.bandwidth},
                              {"results", results_json(figures, setting)},
                              {"cache_bytes", runs.cache_bytes()},
                              {"cache_bytes_by_formula", runs.cache_bytes_by_formula()},
                              {"weights_bytes", model.weights_bytes()},
                              {"peak_rss_bytes", peak_bytes}}
                             .dump());
    return 0;
  }
  print_result("{}; memory {} {:.1f} GB/s\n\n", where, on_cpu ? "reads" : "copies", setting.bandwidth);
  print_table(figures, setting);
  print_result(
      "\ncache {:.2f} MB (2 x layers x heads x positions x head size x bytes = {:.2f} MB), weights {:.1f} MB, peak memory {:.1f} MB\n",
      static_cast<double>(runs.cache_bytes()) / 1e6, static_cast<double>(runs.cache_bytes_by_formula()) / 1e6,
      static_cast<double>(model.weights_bytes()) / 1e6, static_cast<double>(peak_bytes) / 1e6);
  return 0;
}

}  // namespace

void add_bench(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("bench", "Measure prefill, decode, batches, forks and memory");
  auto options = std::make_shared<BenchOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("--prompt", options->prompt, "Prompt length in tokens (default: 128)")->check(between(1, 1 << 20))->option_text("N");
  command->add_option("--tokens", options->tokens, "Tokens to generate (default: 64)")->check(between(1, 1 << 20))->option_text("N");
  command->add_option("--rounds", options->rounds, "How often to repeat each measurement (default: 3)")
      ->check(between(1, 1000))
      ->option_text("N");
  command->add_option("--depth", options->depths, "Context lengths at which to measure decoding (default: 4 times the prompt length)")
      ->check(between(1, 1 << 24))
      ->option_text("N…");
  command->add_option("--batch", options->batches, "Batch sizes: sequences decoded together (default: 1 4)")
      ->check(between(1, 1024))
      ->option_text("N…");
  command->add_flag("--uncached", options->uncached, "Also run 16 to 256 tokens without a cache, and print the speedup of the cache");
  command->add_option("--plot", options->plot, "Write a plot of the results to this file")->option_text("F.svg");
  command->callback([=] { commands.run = [=] { return bench(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
