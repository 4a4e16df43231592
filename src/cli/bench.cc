#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <thread>

#include "api/state.h"
#include "base/json.h"
#include "cli/bandwidth.h"
#include "cli/model_options.h"
#include "cli/progress.h"

namespace kvik::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  ModelOptions model;
  int prompt = 128;
  int tokens = 64;
  int rounds = 3;
  std::vector<int> batches = {1, 4};
  bool uncached = false;
};

// One figure, from runs that really happened.
struct Figure {
  std::string what;
  double tokens_per_s = 0;
  double bytes_per_token = 0;  // weights and cache read for one token; 0 where it is not bound by them
  double p50_ms = 0;
  double p95_ms = 0;
  Json more = Json::object();
};

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

class Bench {
 public:
  Bench(const Model& model, const BenchOptions& options, const Terminal& terminal)
      : model_(model), options_(options), progress_(terminal, "measuring"), backend_(ModelAccess::state(model).backend) {
    const int limit = engine::Sequence(backend_, options.model.load.context).capacity();
    n_prompt_ = limit > 0 ? std::clamp(limit - options.tokens, 1, options.prompt) : options.prompt;
    n_tokens_ = limit > 0 ? std::clamp(limit - n_prompt_, 1, options.tokens) : options.tokens;
  }

  std::vector<Figure> run() {
    prefill_and_decode();
    for (const int batch : options_.batches) {
      if (batch > 1) decode_batch(batch);
    }
    if (options_.uncached) cached_against_uncached();
    forks();
    progress_.clear();
    return std::move(figures_);
  }

  size_t cache_bytes() const { return cache_bytes_; }
  size_t cache_bytes_by_formula() const {
    return static_cast<size_t>(ModelAccess::state(model_).signature.cache_bytes_per_token()) * static_cast<size_t>(cache_positions_);
  }

 private:
  // Ids all over the vocabulary, the same each time.
  std::vector<TokenId> prompt(int n, int salt = 0) const {
    std::vector<TokenId> ids;
    for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 31 + int64_t{salt} * 101) % model_.vocab_size()));
    return ids;
  }

  engine::Sequence new_sequence() const { return {backend_, options_.model.load.context}; }

  static TokenId greedy(engine::Sequence& sequence) {
    const std::span<const float> logits = sequence.logits();
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  template <class Work>
  static double ms_of(Work work) {
    const auto start = Clock::now();
    work();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  void append(engine::Sequence& sequence, std::span<const TokenId> tokens) const {
    if (sequence.append(tokens) != engine::Appended::kDone)
      throw Error(Code::kTooLarge, "the context is too small for this benchmark; use --prompt and --tokens");
  }

  void prefill_and_decode() {
    std::vector<double> first_ms, step_ms;
    const std::vector<TokenId> tokens = prompt(n_prompt_);
    for (int round = 0; round < options_.rounds; ++round) {
      engine::Sequence sequence = new_sequence();
      first_ms.push_back(ms_of([&] {
        append(sequence, tokens);
        greedy(sequence);
      }));
      for (int i = 0; i < n_tokens_; ++i) {
        step_ms.push_back(ms_of([&] {
          const TokenId next = greedy(sequence);
          append(sequence, {&next, 1});
        }));
      }
      cache_bytes_ = sequence.cache_bytes();
      cache_positions_ = sequence.length();
      progress_.show(round + 1, options_.rounds);
    }
    const double first = percentile(first_ms, 0.5), step = percentile(step_ms, 0.5);
    figures_.push_back({fmt::format("prefill {} tokens", n_prompt_), n_prompt_ * 1e3 / first, 0, first, percentile(first_ms, 0.95)});
    const double depth = n_prompt_ + n_tokens_ / 2.0;
    const double bytes = static_cast<double>(model_.weights_bytes()) +
                         depth * static_cast<double>(ModelAccess::state(model_).signature.cache_bytes_per_token());
    figures_.push_back({fmt::format("decode at depth {}", n_prompt_), 1e3 / step, bytes, step, percentile(step_ms, 0.95)});
  }

  void decode_batch(int n_sequences) {
    std::vector<engine::Sequence> sequences;
    std::vector<engine::Sequence*> pointers;
    for (int i = 0; i < n_sequences; ++i) {
      sequences.push_back(new_sequence());
      append(sequences.back(), prompt(n_prompt_, i));
    }
    for (engine::Sequence& sequence : sequences) pointers.push_back(&sequence);
    std::vector<double> step_ms;
    std::vector<TokenId> next(static_cast<size_t>(n_sequences));
    for (int i = 0; i < n_tokens_; ++i) {
      step_ms.push_back(ms_of([&] {
        for (size_t s = 0; s < next.size(); ++s) next[s] = greedy(sequences[s]);
        engine::Sequence::append_each(pointers, next);
      }));
    }
    const double step = percentile(step_ms, 0.5);
    figures_.push_back({fmt::format("decode batch of {}", n_sequences), n_sequences * 1e3 / step, 0, step, percentile(step_ms, 0.95)});
  }

  // The uncached side is really run: every token computes everything before it again.
  void cached_against_uncached() {
    for (const int length : {16, 32, 64, 128, 256}) {
      const engine::Sequence probe = new_sequence();
      if (probe.capacity() > 0 && length + 1 > probe.capacity()) break;
      const std::vector<TokenId> start = prompt(1);
      const auto generate = [&](bool cached) {
        engine::Sequence sequence = new_sequence();
        std::vector<TokenId> tokens = start;
        append(sequence, tokens);
        while (static_cast<int>(tokens.size()) < length) {
          tokens.push_back(greedy(sequence));
          if (cached) {
            append(sequence, {&tokens.back(), 1});
          } else {
            sequence.rewind(0);
            append(sequence, tokens);
          }
        }
      };
      const double cached_ms = ms_of([&] { generate(true); });
      const double uncached_ms = ms_of([&] { generate(false); });
      figures_.push_back({fmt::format("{} tokens, cached", length), length * 1e3 / cached_ms, 0, cached_ms, cached_ms});
      figures_.push_back({fmt::format("{} tokens, uncached", length),
                          length * 1e3 / uncached_ms,
                          0,
                          uncached_ms,
                          uncached_ms,
                          {{"speed_up_by_cache", uncached_ms / cached_ms}}});
      progress_.show(length, 256);
    }
  }

  void forks() {
    if (!backend_->traits().can_fork) return;
    engine::Sequence trunk = new_sequence();
    append(trunk, prompt(n_prompt_));
    std::vector<double> fork_ms;
    for (int i = 0; i < 200; ++i) {
      fork_ms.push_back(ms_of([&] { const engine::Sequence branch = trunk.fork(); }));
    }
    const double fork = percentile(fork_ms, 0.5);
    figures_.push_back({fmt::format("fork at depth {}", n_prompt_), 0, 0, fork, percentile(fork_ms, 0.95)});
  }

  const Model& model_;
  const BenchOptions& options_;
  Progress progress_;
  std::shared_ptr<backend::Backend> backend_;
  int n_prompt_ = 0, n_tokens_ = 0;
  int cache_positions_ = 0;
  size_t cache_bytes_ = 0;
  std::vector<Figure> figures_;
};

int bench(const BenchOptions& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  if (ModelAccess::state(model).backend->traits().needs_source)
    throw Error(Code::kUnsupported, "bench measures decoders; this model translates from a source");
  const int n_threads =
      options.model.load.threads > 0 ? options.model.load.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Bench measured(model, options, terminal);
  const std::vector<Figure> figures = measured.run();
  const double bandwidth = read_bandwidth_gb_per_s(n_threads);
  Json results = Json::array();
  if (!terminal.json) {
    fmt::print("{} on {}, {} threads; reads {:.1f} GB/s\n\n{:<26} {:>10} {:>10} {:>10} {:>9} {:>8} {:>7}\n", model.backend(),
               model.device(), n_threads, bandwidth, "", "tokens/s", "p50 ms", "p95 ms", "MB/token", "GB/s", "share");
  }
  for (const Figure& figure : figures) {
    const double gb_per_s = figure.bytes_per_token * figure.tokens_per_s / 1e9;
    Json entry = {{"what", figure.what},    {"tokens_per_s", figure.tokens_per_s},        {"bytes_per_token", figure.bytes_per_token},
                  {"gb_per_s", gb_per_s},   {"share_of_bandwidth", gb_per_s / bandwidth}, {"p50_ms", figure.p50_ms},
                  {"p95_ms", figure.p95_ms}};
    entry.update(figure.more);
    results.push_back(entry);
    if (terminal.json) continue;
    const bool bound = figure.bytes_per_token > 0;
    fmt::print("{:<26} {:>10} {:>10.3f} {:>10.3f} {:>9} {:>8} {:>7}{}\n", figure.what,
               figure.tokens_per_s > 0 ? fmt::format("{:.1f}", figure.tokens_per_s) : "", figure.p50_ms, figure.p95_ms,
               bound ? fmt::format("{:.1f}", figure.bytes_per_token / 1e6) : "", bound ? fmt::format("{:.1f}", gb_per_s) : "",
               bound ? fmt::format("{:.0f} %", 100 * gb_per_s / bandwidth) : "",
               figure.more.empty() ? "" : fmt::format("  cache is {:.1f} times as fast", figure.more["speed_up_by_cache"].get<double>()));
  }
  if (terminal.json) {
    std::cout << Json{{"backend", model.backend()},
                      {"threads", n_threads},
                      {"bandwidth_gb_per_s", bandwidth},
                      {"results", results},
                      {"cache_bytes", measured.cache_bytes()},
                      {"cache_bytes_by_formula", measured.cache_bytes_by_formula()},
                      {"weights_bytes", model.weights_bytes()},
                      {"peak_rss_bytes", peak_resident_bytes()}}
                     .dump()
              << "\n";
    return 0;
  }
  fmt::print(
      "\ncache {:.2f} MB (2 x layers x heads x positions x head size x bytes = {:.2f} MB), weights {:.1f} MB, peak memory {:.1f} MB\n",
      static_cast<double>(measured.cache_bytes()) / 1e6, static_cast<double>(measured.cache_bytes_by_formula()) / 1e6,
      static_cast<double>(model.weights_bytes()) / 1e6, static_cast<double>(peak_resident_bytes()) / 1e6);
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
  command->add_option("--batch", options->batches, "Sequences that decode together (1 4)")->check(CLI::Range(1, 1024))->option_text("N…");
  command->add_flag("--uncached", options->uncached, "Also run 16 to 256 tokens without a cache, really, and say what the cache is worth");
  command->callback([=] { commands.run = [=] { return bench(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
