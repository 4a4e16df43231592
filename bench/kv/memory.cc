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

constexpr int kSteps = 40;  // more than a page

// Of the calls that `start` returns; the second time, when the first has taken pages and buffers.
template <class Start>
void print_allocations(std::string_view what, const Start& start) {
  double per_step = 0;
  for (int time = 0; time < 2; ++time) {
    auto step = start();
    for (int i = 0; i < 4; ++i) step();
    const int64_t before = testing_support::n_allocations();
    for (int i = 0; i < kSteps; ++i) step();
    per_step = static_cast<double>(testing_support::n_allocations() - before) / kSteps;
  }
  fmt::print("  {:<38}{:>12.2f}\n", what, per_step);
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

void bench_allocations(const Model& model, const Context& context) {
  fmt::print("\nallocations per step at {} positions\n", context.length);
  const TokenId token = context.tokens.front();
  print_allocations("append a token",
                    [&] { return [=, session = context.session.fork()]() mutable { require_done(session.append(token)); }; });

  print_allocations("a step of 4 forks", [&] {
    std::vector<Session> forks;
    for (int i = 0; i < 4; ++i) forks.push_back(context.session.fork());
    std::vector<Session*> pointers;
    for (Session& fork : forks) pointers.push_back(&fork);
    return [&model, forks = std::move(forks), pointers = std::move(pointers), tokens = std::vector<TokenId>(4, token)] {
      require_done(model.step(pointers, tokens));
    };
  });

  const Branches branches = make_branches();
  print_allocations("append_tree() and keep()", [&] {
    return [&, session = context.session.fork()]() mutable {
      require_done(session.append_tree(branches.tokens, branches.parents).status());
      session.keep(branches.node(branches.n - 1, branches.depth - 1));
    };
  });

  print_allocations("a token of a generation", [&] {
    const GenerateOptions options{.max_tokens = kSteps + 8, .sampling = {.temperature = 0}, .ignore_eos = true};
    return [generation = model.generate(context.tokens, options)]() mutable { generation.next(); };
  });
}

}  // namespace kvik::bench
