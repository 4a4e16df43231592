#include "cli/bench_runs.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "base/elapsed.h"
#include "cli/interrupt.h"

namespace kvik::cli {
namespace {

constexpr int kStepsAtDepth = 16;
constexpr int kForks = 200;

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

template <class Work>
double ms_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return ms_since(start);
}

// Of runs that each made `n_tokens` tokens.
Figure figure_of(std::string what, int n_tokens, const std::vector<double>& ms) {
  const double p50 = percentile(ms, 0.5);
  return {.what = std::move(what), .tokens_per_s = n_tokens * 1e3 / p50, .p50_ms = p50, .p95_ms = percentile(ms, 0.95)};
}

// The largest logit, regardless of the model's own sampling options.
Sampling greedy_sampling() {
  Sampling sampling;
  for (const SamplingField& field : sampling_fields()) {
    std::visit(
        [&](auto member) {
          using Value = typename std::remove_reference_t<decltype(sampling.*member)>::value_type;
          if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, uint64_t>) {
            sampling.*member = static_cast<Value>(field.no_effect);
          } else if constexpr (!std::is_same_v<Value, uint64_t>) {
            sampling.*member = Value();
          }
        },
        field.member);
  }
  sampling.temperature = 0;
  return sampling;
}

}  // namespace

BenchRuns::BenchRuns(const Model& model, const BenchOptions& options, const Terminal& terminal)
    : model_(model), options_(options), likeliest_(greedy_sampling()), progress_(terminal, "measuring") {
  capacity_ = model_.session().capacity();
  n_prompt_ = capacity_ > 0 ? std::clamp(capacity_ - options.tokens, 1, options.prompt) : options.prompt;
  n_tokens_ = capacity_ > 0 ? std::clamp(capacity_ - n_prompt_, 1, options.tokens) : options.tokens;
}

std::vector<Figure> BenchRuns::run() {
  const auto measure = [](const auto& runs) {
    if (!Interrupt::happened()) runs();
  };
  measure([&] { prefill_and_decode(); });
  std::vector<int> depths = options_.depths;
  if (depths.empty()) depths = {4 * n_prompt_};
  for (const int depth : depths) measure([&] { decode_at(depth); });
  for (const int batch : options_.batches) {
    if (batch > 1) measure([&] { decode_batch(batch); });
  }
  if (options_.uncached) measure([&] { cached_against_uncached(); });
  measure([&] { forks(); });
  progress_.clear();
  return std::move(figures_);
}

size_t BenchRuns::cache_bytes_by_formula() const { return model_.cache_bytes_per_token() * static_cast<size_t>(cache_positions_); }

std::vector<TokenId> BenchRuns::prompt(int n, int salt) const {
  std::vector<TokenId> ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 31 + int64_t{salt} * 101) % model_.vocab_size()));
  return ids;
}

TokenId BenchRuns::greedy(Session& session) const { return session.sample(likeliest_); }

void BenchRuns::append(Session& session, std::span<const TokenId> tokens) {
  if (session.append(tokens) != AppendStatus::kDone)
    throw Error(Code::kTooLarge,
                fmt::format("the context of {} positions is too small for this; use --prompt, --tokens and --depth", session.capacity()));
}

// Weights once, and the keys and values of everything before.
double BenchRuns::step_bytes(double depth) const {
  return static_cast<double>(model_.weights_bytes_per_token()) + depth * static_cast<double>(model_.cache_bytes_per_token());
}

void BenchRuns::prefill_and_decode() {
  std::vector<double> prefill_ms, first_ms, step_ms;
  const std::vector<TokenId> tokens = prompt(n_prompt_);
  for (int round = 0; round < options_.rounds; ++round) {
    Session session = model_.session();
    prefill_ms.push_back(ms_of([&] { append(session, tokens); }));
    first_ms.push_back(prefill_ms.back() + ms_of([&] { greedy(session); }));
    for (int i = 0; i < n_tokens_; ++i) {
      if (Interrupt::happened()) return;
      step_ms.push_back(ms_of([&] {
        const TokenId next = greedy(session);
        append(session, {&next, 1});
      }));
    }
    cache_bytes_ = session.metrics().cache_bytes;
    cache_positions_ = session.length();
    progress_.show(round + 1, options_.rounds);
  }
  figures_.push_back(figure_of(fmt::format("prefill {} tokens", n_prompt_), n_prompt_, prefill_ms));
  figures_.push_back(figure_of(fmt::format("first token after {}", n_prompt_), 1, first_ms));
  figures_.push_back(figure_of(fmt::format("decode at depth {}", n_prompt_), 1, step_ms));
  figures_.back().bytes_per_token = step_bytes(n_prompt_ + n_tokens_ / 2.0);
}

void BenchRuns::decode_at(int depth) {
  const int n_steps = std::min(kStepsAtDepth, n_tokens_);
  if (capacity_ > 0) depth = std::min(depth, capacity_ - n_steps);
  if (depth <= n_prompt_) return;  // already measured
  Session session = model_.session();
  append(session, prompt(depth));
  std::vector<double> step_ms;
  for (int i = 0; i < n_steps; ++i) {
    if (Interrupt::happened()) return;
    step_ms.push_back(ms_of([&] {
      const TokenId next = greedy(session);
      append(session, {&next, 1});
    }));
  }
  figures_.push_back(figure_of(fmt::format("decode at depth {}", depth), 1, step_ms));
  figures_.back().bytes_per_token = step_bytes(depth + n_steps / 2.0);
}

void BenchRuns::decode_batch(int n_sessions) {
  std::vector<Session> sessions;
  std::vector<Session*> pointers;
  for (int i = 0; i < n_sessions; ++i) {
    sessions.push_back(model_.session());
    append(sessions.back(), prompt(n_prompt_, i));
  }
  for (Session& session : sessions) pointers.push_back(&session);
  std::vector<double> step_ms;
  std::vector<TokenId> next(static_cast<size_t>(n_sessions));
  for (int i = 0; i < n_tokens_; ++i) {
    if (Interrupt::happened()) return;
    step_ms.push_back(ms_of([&] {
      for (size_t s = 0; s < next.size(); ++s) next[s] = greedy(sessions[s]);
      if (model_.step(pointers, next) != AppendStatus::kDone) throw Error(Code::kTooLarge, "the context is too small for this batch");
    }));
  }
  figures_.push_back(figure_of(fmt::format("decode batch of {}", n_sessions), n_sessions, step_ms));
}

void BenchRuns::generate(int length, bool cached) {
  Session session = model_.session();
  std::vector<TokenId> tokens = prompt(1);
  append(session, tokens);
  while (static_cast<int>(tokens.size()) < length && !Interrupt::happened()) {
    tokens.push_back(greedy(session));
    if (cached) {
      append(session, {&tokens.back(), 1});
    } else {
      session.rewind(0);
      append(session, tokens);
    }
  }
}

// Without the cache, each token actually recomputes everything before it.
void BenchRuns::cached_against_uncached() {
  for (const int length : {16, 32, 64, 128, 256}) {
    if (capacity_ > 0 && length + 1 > capacity_) break;
    const double cached_ms = ms_of([&] { generate(length, true); });
    const double uncached_ms = ms_of([&] { generate(length, false); });
    if (Interrupt::happened()) return;
    figures_.push_back(figure_of(fmt::format("{} tokens, cached", length), length, {cached_ms}));
    figures_.back().more = {{"tokens", length}, {"cached", true}};
    figures_.push_back(figure_of(fmt::format("{} tokens, uncached", length), length, {uncached_ms}));
    figures_.back().more = {{"tokens", length}, {"cached", false}, {"speed_up_by_cache", uncached_ms / cached_ms}};
    progress_.show(length, 256);
  }
}

void BenchRuns::forks() {
  Session trunk = model_.session();
  append(trunk, prompt(n_prompt_));
  std::vector<double> fork_ms;
  for (int i = 0; i < kForks; ++i) {
    fork_ms.push_back(ms_of([&] { const Session branch = trunk.fork(); }));
  }
  figures_.push_back(figure_of(fmt::format("fork at depth {}", n_prompt_), 0, fork_ms));
}

}  // namespace kvik::cli
