// Tokens per second with and without speculation. The two take turns, token by token; medians are printed, and the tokens must be the same.
// usage: bench-speculate MODEL [--tokenizer FOLDER] [--source FILE] [--tokens N] [--rounds N] [--weights auto|f32|f16|q8|q4]
//                        [--kv auto|f32|f16|q8] [--threads N] [--own-time yes] [--draft MODEL]
// --draft compares a model that proposes (with q4 weights) instead of lookup.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvik/kvik.h"
#include "options.h"

namespace kvik::bench {
namespace {

using Ids = std::vector<TokenId>;

struct Settings {
  std::string model;
  std::string tokenizer = "models/fable";  // of models without one: any ids do for random weights
  std::string draft;
  std::filesystem::path source = "examples/search.cc";
  int n_tokens = 384;
  int n_rounds = 7;
  clockid_t clock = CLOCK_MONOTONIC;  // or the CPU time of this process, with one thread, on a busy machine
  LoadOptions load{.backend = BackendChoice::kNative, .threads = 2};
};

double seconds_now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Task {
  std::string name;
  Ids prompt;
  GenerateOptions options;
  Ids expected;  // empty: not known
};

// ---- tasks

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be read", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

// What a programmer asks for: two names and a type change, and a comment is new.
std::string edited(std::string text) {
  replace_all(text, "Branch", "Candidate");
  replace_all(text, "log_probability", "score");
  replace_all(text, "double", "float");
  const size_t line = text.find('\n', text.size() / 3);
  if (line != std::string::npos) text.insert(line + 1, "// The likeliest comes first.\n");
  return text;
}

// Biases that make any model answer `answer`: each names a token and what precedes it, far enough back to be unambiguous.
std::vector<SequenceBias> forcing(const Ids& prompt, const Ids& answer) {
  Ids all = prompt;
  all.insert(all.end(), answer.begin(), answer.end());
  for (size_t n_before = 8;; n_before *= 2) {
    std::map<Ids, TokenId> next;
    const bool is_unambiguous = std::ranges::all_of(answer, [&, i = prompt.size()](TokenId token) mutable {
      const Ids before(all.begin() + static_cast<std::ptrdiff_t>(i - std::min(i, n_before)), all.begin() + static_cast<std::ptrdiff_t>(i));
      ++i;
      return next.emplace(before, token).first->second == token;
    });
    if (!is_unambiguous) continue;
    std::vector<SequenceBias> biases;
    for (auto& [before, token] : next) {
      Ids ids = before;
      ids.push_back(token);
      biases.push_back({std::move(ids), 1e4});
    }
    return biases;
  }
}

// The file is in the prompt, and the answer is the file with changes. No model of this tree can edit, so the answer is forced.
Task editing(const Model& tokenizer, const Settings& settings) {
  const std::string text = read_text(settings.source);
  const auto n = static_cast<size_t>(settings.n_tokens);
  Ids prompt = tokenizer.tokenize(text, false), answer = tokenizer.tokenize(edited(text), false);
  prompt.resize(std::min(prompt.size(), n));
  answer.resize(std::min(answer.size(), n));
  const GenerateOptions options{.max_tokens = static_cast<int>(answer.size()),
                                .sampling = {.temperature = 0, .sequence_bias = forcing(prompt, answer)},
                                .ignore_eos = true};
  return {"editing a source file", std::move(prompt), options, std::move(answer)};
}

Task continuing(const Model& model, const Settings& settings, double temperature) {
  return {temperature > 0 ? fmt::format("a story, temperature {}", temperature) : "a story, greedy",
          model.tokenize("Once upon a time"),
          {.max_tokens = settings.n_tokens, .sampling = {.temperature = temperature, .seed = 1}, .ignore_eos = true}};
}

// Every token is as likely as any other.
Task random_text(const Model& model, const Settings& settings, unsigned seed) {
  std::mt19937 random(seed);
  Ids prompt(static_cast<size_t>(settings.n_tokens));
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % static_cast<unsigned>(model.vocab_size()));
  return {"random text",
          std::move(prompt),
          {.max_tokens = settings.n_tokens, .sampling = {.temperature = 1e3, .top_k = 0, .top_p = 1.0, .seed = seed}, .ignore_eos = true}};
}

// ---- measuring

struct Run {
  Ids ids;
  double tokens_per_s = 0;  // after the first token
  Metrics metrics;
};

// Where they come from.
struct Proposals {
  Speculate speculate = Speculate::kOff;
  std::shared_ptr<const Model> draft;
};

// One generation, timed token by token after its first.
class TimedRun {
 public:
  TimedRun(const Model& model, const Task& task, const Proposals& proposals, clockid_t clock)
      : generation_(start(model, task, proposals)), clock_(clock) {
    while (generation_.ids().empty() && generation_.next()) {}
    n_before_ = generation_.ids().size();
  }

  bool is_done() const { return done_; }
  void advance() {
    const double start = seconds_now(clock_);
    done_ = done_ || !generation_.next();
    seconds_ += seconds_now(clock_) - start;
  }
  Run result() const {
    return {generation_.ids(), static_cast<double>(generation_.ids().size() - n_before_) / seconds_, generation_.metrics()};
  }

 private:
  static Generation start(const Model& model, const Task& task, const Proposals& proposals) {
    GenerateOptions options = task.options;
    options.speculate = proposals.speculate;
    options.draft = proposals.draft;
    return model.generate(task.prompt, options);
  }

  Generation generation_;
  clockid_t clock_;
  size_t n_before_ = 0;
  double seconds_ = 0;
  bool done_ = false;
};

// Both at once, a token of each in turn: what else the machine does, and at which speed it runs, is then the same for both.
std::pair<Run, Run> run_pair(const Model& model, const Task& plain, const Task& speculative, const Proposals& proposals, bool plain_first,
                             clockid_t clock) {
  TimedRun off(model, plain, {}, clock), with(model, speculative, proposals, clock);
  TimedRun* const order[] = {plain_first ? &off : &with, plain_first ? &with : &off};
  while (!off.is_done() || !with.is_done()) {
    for (TimedRun* run : order) run->advance();
  }
  return {off.result(), with.result()};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Runs of one task, in pairs.
struct Figures {
  std::vector<double> off, with, ratios;  // tokens per second, and one divided by the other
  Metrics metrics;                        // with proposals

  void add(const Run& plain, const Run& speculative) {
    off.push_back(plain.tokens_per_s);
    with.push_back(speculative.tokens_per_s);
    ratios.push_back(speculative.tokens_per_s / plain.tokens_per_s);
    metrics = speculative.metrics;
  }

  void print(std::string_view name) const {
    const double tokens_per_run = metrics.decode_runs > 0 ? static_cast<double>(metrics.decode_tokens) / metrics.decode_runs : 1;
    fmt::print("  {:<36}{:>10.1f}{:>12.1f}{:>10.3f}{:>16}{:>16.2f}\n", name, median(off), median(with), median(ratios),
               fmt::format("{} of {}", metrics.accepted_tokens, metrics.proposed_tokens), tokens_per_run);
    std::fflush(stdout);
  }
};

void measure(const Model& model, const Task& task, const Proposals& proposals, const Settings& settings) {
  Figures figures;
  for (int round = -1; round < settings.n_rounds; ++round) {
    const auto [off, with] = run_pair(model, task, task, proposals, round % 2 == 0, settings.clock);
    if (off.ids != with.ids) throw std::runtime_error(task.name + ": speculation changed the tokens");
    if (!task.expected.empty() && off.ids != task.expected) throw std::runtime_error(task.name + ": the answer is not the edited file");
    if (round >= 0) figures.add(off, with);  // the first takes pages and buffers
  }
  figures.print(task.name);
}

// The model knows what its sessions computed before, so every run needs a text of its own.
void measure_among_known_texts(const Model& model, const Proposals& proposals, const Settings& settings) {
  Figures figures;
  unsigned seed = 100;
  for (int round = -1; round < settings.n_rounds; ++round) {
    const Task first = random_text(model, settings, ++seed), second = random_text(model, settings, ++seed);
    const auto [off, with] = run_pair(model, first, second, proposals, round % 2 == 0, settings.clock);
    if (round >= 0) figures.add(off, with);
  }
  figures.print("random text among known texts");
}

std::shared_ptr<const Model> load_draft(const Settings& settings) {
  LoadOptions load = settings.load;
  load.weights = Weights::kQ4;
  load.kv = KvStorage::kAuto;
  return std::make_shared<const Model>(Model::load(settings.draft, load));
}

void bench(const Settings& settings) {
  LoadOptions load = settings.load;
  load.reuse_prefixes = false;  // otherwise a run would find the answer of the run before
  const Model model = Model::load(settings.model, load);
  const Model tokenizer = model.has_tokenizer() ? model : Model::load(settings.tokenizer);
  fmt::print("\n{}: {} threads, {} tokens, medians of {}; the tokens are the same with and without\n",
             std::filesystem::path(settings.model).filename().string(), load.threads, settings.n_tokens, settings.n_rounds);
  fmt::print("  {:<36}{:>10}{:>12}{:>10}{:>16}{:>16}\n", "tokens per second", "off", settings.draft.empty() ? "lookup" : "draft", "ratio",
             "accepted", "tokens per run");
  Proposals proposals{.speculate = Speculate::kLookup};
  if (!settings.draft.empty()) proposals = {Speculate::kOff, load_draft(settings)};
  measure(model, editing(tokenizer, settings), proposals, settings);
  if (model.has_tokenizer()) {
    measure(model, continuing(model, settings, 0), proposals, settings);
    measure(model, continuing(model, settings, 0.7), proposals, settings);
  }
  measure(model, random_text(model, settings, 1), proposals, settings);
  measure_among_known_texts(Model::load(settings.model, settings.load), proposals, settings);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  settings.model = parse_options(argc, argv, [&](const std::string& option, const std::string& value) {
    if (option == "--tokenizer") {
      settings.tokenizer = value;
    } else if (option == "--draft") {
      settings.draft = value;
    } else if (option == "--source") {
      settings.source = value;
    } else if (option == "--tokens") {
      settings.n_tokens = std::stoi(value);
    } else if (option == "--rounds") {
      settings.n_rounds = std::max(1, std::stoi(value));
    } else if (option == "--own-time" && value == "yes") {
      settings.clock = CLOCK_PROCESS_CPUTIME_ID;
      settings.load.threads = 1;
    } else {
      return set_load_option(settings.load, option, value);
    }
    return true;
  });
  return settings;
}

}  // namespace
}  // namespace kvik::bench

int main(int argc, char** argv) {
  try {
    kvik::bench::bench(kvik::bench::parse(argc, argv));
  } catch (const std::invalid_argument& e) {
    fmt::print(stderr,
               "bench-speculate: {}\nusage: bench-speculate MODEL [--tokenizer FOLDER] [--source FILE] [--tokens N] [--rounds N] "
               "[--weights auto|f32|f16|q8|q4] [--kv auto|f32|f16|q8] [--threads N] [--own-time yes] [--draft MODEL]\n",
               e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-speculate: {}\n", e.what());
    return 1;
  }
  return 0;
}
