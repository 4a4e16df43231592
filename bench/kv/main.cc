// Fork, rewind, save, load, prefix hits and tree steps at several lengths of a context, the memory of forks, and allocations per step.
// usage: bench-kv MODEL [--lengths 512,4096,32000] [--computed 4096] [--weights auto|f32|f16|q8|q4] [--kv auto|f32|f16|q8] [--threads N]
//                 [--rounds N] [--scratch FOLDER]
#include <fmt/core.h>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

#include "kv.h"
#include "options.h"

namespace kvik::bench {
namespace {

constexpr const char* kUsage =
    "usage: bench-kv MODEL [--lengths 512,4096,32000] [--computed 4096] [--weights auto|f32|f16|q8|q4] [--kv auto|f32|f16|q8] [--threads "
    "N] "
    "[--rounds N] [--scratch FOLDER]\n";

std::vector<int> lengths_of(const std::string& text) {
  std::vector<int> lengths;
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) lengths.push_back(std::stoi(item));
  std::ranges::sort(lengths);
  if (lengths.empty() || lengths.front() < 64) throw std::invalid_argument("--lengths must be at least 64");
  return lengths;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  settings.model = parse_options(argc, argv, [&](const std::string& option, const std::string& value) {
    if (option == "--lengths") {
      settings.lengths = lengths_of(value);
    } else if (option == "--computed") {
      settings.n_computed = std::stoi(value);
    } else if (option == "--rounds") {
      settings.n_rounds = std::max(1, std::stoi(value));
    } else if (option == "--scratch") {
      settings.scratch = value;
    } else {
      return set_load_option(settings.load, option, value);
    }
    return true;
  });
  return settings;
}

// Removed with everything in it.
struct ScratchFolder {
  explicit ScratchFolder(std::filesystem::path folder) : path(std::move(folder)) { std::filesystem::create_directories(path); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  const std::filesystem::path path;
};

void run(Settings settings) {
  const ScratchFolder scratch(settings.scratch / fmt::format("kvik-bench-kv-{}", getpid()));
  settings.scratch = scratch.path;
  const Model model = Model::load(settings.model, settings.load);
  fmt::print("{}: {} threads, {:.1f} KB of cache per position, medians of {}\n", std::filesystem::path(settings.model).filename().string(),
             settings.load.threads, static_cast<double>(model.cache_bytes_per_token()) / 1e3, settings.n_rounds);
  std::vector<Context> contexts = make_contexts(model, settings);
  bench_times(model, contexts, settings.n_rounds);
  bench_prefix(model, contexts, settings.n_rounds);
  bench_tree(model, contexts, settings.n_rounds);
  bench_memory(model, contexts);
  bench_allocations(model, contexts.front());
}

}  // namespace
}  // namespace kvik::bench

int main(int argc, char** argv) {
  using namespace kvik::bench;
  Settings settings;
  try {
    settings = parse(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-kv: {}\n{}", e.what(), kUsage);
    return 2;
  }
  try {
    run(settings);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-kv: {}\n", e.what());
    return 1;
  }
  return 0;
}
