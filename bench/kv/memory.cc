#include <fmt/core.h>
#include <malloc.h>
#include <thread>

#include "kv.h"
#include "support/allocations.h"

namespace kvik::bench {
namespace {

double malloc_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

double fork_bytes(const Session& session, int n) {
  std::vector<Session> forks;
  forks.reserve(static_cast<size_t>(n));
  const double before = malloc_bytes();
  for (int i = 0; i < n; ++i) forks.push_back(session.fork());
  return malloc_bytes() - before;
}

constexpr int kSteps = 100;  // three pages or more

// Of kSteps calls, after a few that take buffers.
template <class Fn>
double allocations_per_step(Fn&& step) {
  for (int i = 0; i < 4; ++i) step();
  const int64_t before = testing_support::n_allocations();
  for (int i = 0; i < kSteps; ++i) step();
  return static_cast<double>(testing_support::n_allocations() - before) / kSteps;
}

}  // namespace

void bench_memory(const Model&, std::vector<Context>& contexts) {
  print_header("memory of forks that share all pages", contexts);
  for (const int n : {1, 100, 10'000}) {
    std::vector<double> row;
    for (const Context& context : contexts) {
      // A new thread has no freed memory of its own, which malloc counts as used.
      std::thread([&] { row.push_back(fork_bytes(context.session, n)); }).join();
    }
    print_row(fmt::format("{} fork{}", n, n == 1 ? "" : "s"), row, "bytes");
  }
}

void bench_allocations(const Model& model, Context& context) {
  fmt::print("\nallocations per step at {} positions\n", context.length);
  Session session = context.session.fork();
  const TokenId token = context.tokens.front();
  fmt::print("  {:<38}{:>12.2f}\n", "append a token", allocations_per_step([&] { require_done(session.append(token)); }));

  std::vector<Session> forks;
  std::vector<Session*> pointers;
  for (int i = 0; i < 4; ++i) forks.push_back(context.session.fork());
  for (Session& fork : forks) pointers.push_back(&fork);
  const std::vector<TokenId> tokens(forks.size(), token);
  fmt::print("  {:<38}{:>12.2f}\n", "a step of 4 forks", allocations_per_step([&] { require_done(model.step(pointers, tokens)); }));

  Generation generation =
      model.generate(session, context.session.tokens(), {.max_tokens = kSteps + 8, .sampling = {.temperature = 0}, .ignore_eos = true});
  fmt::print("  {:<38}{:>12.2f}\n", "a token of a generation", allocations_per_step([&] { generation.next(); }));
}

}  // namespace kvik::bench
