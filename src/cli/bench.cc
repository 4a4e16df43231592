#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <thread>

#include "base/new_file.h"
#include "cli/bandwidth.h"
#include "cli/bench_runs.h"

namespace kvik::cli {
namespace {

// What a run is measured against, and where.
struct Setting {
  int n_threads;
  double bandwidth;  // GB/s
};

// A fork takes less than a thousandth of one.
std::string milliseconds(double ms) { return fmt::format("{:.{}f}", ms, ms < 0.01 ? 6 : 3); }

void print_table(const std::vector<Figure>& figures, const Setting& setting) {
  fmt::print("{:<26} {:>10} {:>10} {:>10} {:>9} {:>8} {:>7}\n", "", "tokens/s", "p50 ms", "p95 ms", "MB/token", "GB/s", "share");
  for (const Figure& figure : figures) {
    const double gb_per_s = figure.bytes_per_token * figure.tokens_per_s / 1e9;
    const bool bound = figure.bytes_per_token > 0;
    const bool compares = figure.more.contains("speed_up_by_cache");
    fmt::print("{:<26} {:>10} {:>10} {:>10} {:>9} {:>8} {:>7}{}\n", figure.what,
               figure.tokens_per_s > 0 ? fmt::format("{:.1f}", figure.tokens_per_s) : "", milliseconds(figure.p50_ms),
               milliseconds(figure.p95_ms), bound ? fmt::format("{:.1f}", figure.bytes_per_token / 1e6) : "",
               bound ? fmt::format("{:.1f}", gb_per_s) : "", bound ? fmt::format("{:.0f} %", 100 * gb_per_s / setting.bandwidth) : "",
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
                  {"p95_ms", figure.p95_ms}};
    entry.update(figure.more);
    results.push_back(std::move(entry));
  }
  return results;
}

int bench(const BenchOptions& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  if (ModelAccess::state(model).backend->traits().needs_source)
    throw Error(Code::kUnsupported, "bench measures decoders; this model translates from a source");
  const int n_threads =
      options.model.load.threads > 0 ? options.model.load.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  BenchRuns runs(model, options, terminal);
  const std::vector<Figure> figures = runs.run();
  const size_t peak_bytes = peak_resident_bytes();  // of the model: measuring the memory takes a lot of it
  const Setting setting{n_threads, read_bandwidth_gb_per_s(n_threads)};
  const std::string where = fmt::format("{} on {}, {} threads", model.backend(), model.device(), n_threads);
  if (!options.plot.empty()) write_file(options.plot, bench_plot(fmt::format("{}: {}", options.model.model, where), figures));
  if (terminal.json) {
    std::cout << Json{{"backend", model.backend()},
                      {"threads", n_threads},
                      {"bandwidth_gb_per_s", setting.bandwidth},
                      {"results", results_json(figures, setting)},
                      {"cache_bytes", runs.cache_bytes()},
                      {"cache_bytes_by_formula", runs.cache_bytes_by_formula()},
                      {"weights_bytes", model.weights_bytes()},
                      {"peak_rss_bytes", peak_bytes}}
                     .dump()
              << "\n";
    return 0;
  }
  fmt::print("{}; reads {:.1f} GB/s\n\n", where, setting.bandwidth);
  print_table(figures, setting);
  fmt::print(
      "\ncache {:.2f} MB (2 x layers x heads x positions x head size x bytes = {:.2f} MB), weights {:.1f} MB, peak memory {:.1f} MB\n",
      static_cast<double>(runs.cache_bytes()) / 1e6, static_cast<double>(runs.cache_bytes_by_formula()) / 1e6,
      static_cast<double>(model.weights_bytes()) / 1e6, static_cast<double>(peak_bytes) / 1e6);
  return 0;
}

}  // namespace

void add_bench(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("bench", "Measure prefill, decode, batches, forks and memory; nothing is simulated");
  auto options = std::make_shared<BenchOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("--prompt", options->prompt, "Tokens of the prompt (128)")->check(CLI::Range(1, 1 << 20))->option_text("N");
  command->add_option("--tokens", options->tokens, "Tokens to generate (64)")->check(CLI::Range(1, 1 << 20))->option_text("N");
  command->add_option("--rounds", options->rounds, "Times each is measured (3)")->check(CLI::Range(1, 1000))->option_text("N");
  command->add_option("--depth", options->depths, "Positions that decoding is measured at too (four prompts)")
      ->check(CLI::Range(1, 1 << 24))
      ->option_text("N…");
  command->add_option("--batch", options->batches, "Sequences that decode together (1 4)")->check(CLI::Range(1, 1024))->option_text("N…");
  command->add_flag("--uncached", options->uncached, "Also run 16 to 256 tokens without a cache, really, and say what the cache is worth");
  command->add_option("--plot", options->plot, "Draw the figures into a file")->option_text("F.svg");
  command->callback([=] { commands.run = [=] { return bench(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
