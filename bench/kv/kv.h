#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kvik/kvik.h"

// What the KV cache of one model costs at several lengths. See main.cc.
namespace kvik::bench {

struct Settings {
  std::string model;
  LoadOptions load{.backend = BackendChoice::kNative, .weights = Weights::kQ8, .threads = 2};
  std::vector<int> lengths = {512, 4096, 32000};
  int n_computed = 4096;  // positions that are computed; the rest of a longer context are copies of their pages
  int n_rounds = 9;
  std::filesystem::path scratch = std::filesystem::temp_directory_path();
};

// A context of one length.
struct Context {
  int length = 0;
  std::vector<TokenId> tokens;
  Session session;
  std::filesystem::path file;  // its Session::save()
  double compute_ms = 0;       // 0: not computed
};

using Clock = std::chrono::steady_clock;
inline double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

template <class Fn>
double ms_of(Fn&& fn) {
  const Clock::time_point start = Clock::now();
  std::forward<Fn>(fn)();
  return ms_since(start);
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// Branches of a context: tokens one after the other, as nodes of a tree.
struct Branches {
  int n = 4;
  int depth = 4;
  std::vector<TokenId> tokens;
  std::vector<int> parents;

  int node(int branch, int at) const { return branch * depth + at; }
};
Branches make_branches();

// Throws if the status is not kDone.
void require_done(AppendStatus status);
// Seeded; ids below 1000, which every model of interest has.
std::vector<TokenId> random_tokens(size_t n, unsigned seed);

// One context per length, shortest first. Prints what is computed and what is copied.
std::vector<Context> make_contexts(const Model& model, const Settings& settings);

// Each prints a table with a column per context.
void bench_times(const Model& model, std::vector<Context>& contexts, int n_rounds);
void bench_prefix(const Model& model, std::vector<Context>& contexts, int n_rounds);
void bench_tree(const Model& model, std::vector<Context>& contexts, int n_rounds);
void bench_memory(const Model& model, std::vector<Context>& contexts);
void bench_allocations(const Model& model, const Context& context);

// A line of a table; `unit` is "ms" (printed as us, ms or s) or "bytes" (KB or MB). Negative values were not measured.
void print_header(std::string_view title, std::span<const Context> contexts);
void print_row(std::string_view what, std::span<const double> values, std::string_view unit);

}  // namespace kvik::bench
