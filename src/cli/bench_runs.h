#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/model_options.h"
#include "cli/progress.h"

namespace kvik::cli {

struct BenchOptions {
  ModelOptions model;
  int prompt = 128;
  int tokens = 64;
  int rounds = 3;
  std::vector<int> depths;  // empty: one, 4 times the prompt
  std::vector<int> batches = {1, 4};
  bool uncached = false;
  std::string plot;  // a file; empty: none
};

// One result.
struct Figure {
  std::string what;
  double tokens_per_s = 0;
  double bytes_per_token = 0;  // weights and cache read for one token; 0 if they do not limit the speed
  double p50_ms = 0;
  double p95_ms = 0;
  Json more = Json::object();
};

// The measurements of `kvik bench`, on sequences of ids from the whole vocabulary.
class BenchRuns {
 public:
  // All three must outlive it.
  BenchRuns(const Model& model, const BenchOptions& options, const Terminal& terminal);

  std::vector<Figure> run();

  // Of a prompt and its new tokens; call after run().
  size_t cache_bytes() const { return cache_bytes_; }
  size_t cache_bytes_by_formula() const;

 private:
  std::vector<TokenId> prompt(int n, int salt = 0) const;
  TokenId greedy(Session& session) const;
  static void append(Session& session, std::span<const TokenId> tokens);
  double step_bytes(double depth) const;

  void prefill_and_decode();
  void decode_at(int depth);
  void decode_batch(int n_sessions);
  void generate(int length, bool cached);
  void cached_against_uncached();
  void forks();

  const Model& model_;
  const BenchOptions& options_;
  const Sampling likeliest_;
  Progress progress_;
  int capacity_ = 0;  // 0: unknown
  int n_prompt_ = 0, n_tokens_ = 0;
  int cache_positions_ = 0;
  size_t cache_bytes_ = 0;
  std::vector<Figure> figures_;
};

// An SVG image: bars of tokens per second and, if it was measured, the time of 16 to 256 tokens with and without the cache.
std::string bench_plot(const std::string& title, const std::vector<Figure>& figures);

}  // namespace kvik::cli
