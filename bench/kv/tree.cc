#include <bit>
#include <fmt/core.h>
#include <stdexcept>

#include "kv.h"

namespace kvik::bench {

Branches make_branches() {
  Branches branches;
  for (int branch = 0; branch < branches.n; ++branch)
    for (int at = 0; at < branches.depth; ++at) branches.parents.push_back(at == 0 ? -1 : branches.node(branch, at - 1));
  branches.tokens = random_tokens(branches.parents.size(), 2);
  return branches;
}

namespace {

struct Times {
  std::vector<double> tree, keep, forks;
};

std::vector<float> copy_of(std::span<const float> row) { return {row.begin(), row.end()}; }

// The last logits of every branch.
using Leaves = std::vector<std::vector<float>>;

Leaves run_tree(const Session& past, const Branches& branches, Times& times) {
  Session session = past.fork();
  Leaves leaves;
  const Clock::time_point start = Clock::now();
  const TreeLogits found = session.append_tree(branches.tokens, branches.parents);
  times.tree.push_back(ms_since(start));
  require_done(found.status());
  for (int branch = 0; branch < branches.n; ++branch) leaves.push_back(copy_of(found[branches.node(branch, branches.depth - 1)]));
  times.keep.push_back(ms_of([&] { session.keep(branches.node(branches.n - 1, branches.depth - 1)); }));
  if (session.length() != past.length() + branches.depth) throw std::runtime_error("keep() did not append the path");
  return leaves;
}

Leaves run_forks(const Model& model, const Session& past, const Branches& branches, Times& times) {
  std::vector<Session> forks;
  std::vector<Session*> pointers;
  forks.reserve(branches.n);
  Leaves leaves;
  const Clock::time_point start = Clock::now();
  for (int branch = 0; branch < branches.n; ++branch) pointers.push_back(&forks.emplace_back(past.fork()));
  for (int depth = 0; depth < branches.depth; ++depth) {
    std::vector<TokenId> tokens;
    for (int branch = 0; branch < branches.n; ++branch)
      tokens.push_back(branches.tokens[static_cast<size_t>(branches.node(branch, depth))]);
    require_done(model.step(pointers, tokens));
  }
  times.forks.push_back(ms_since(start));
  for (Session& fork : forks) leaves.push_back(copy_of(fork.logits()));
  return leaves;
}

bool have_equal_bits(const Leaves& a, const Leaves& b) {
  const auto bits = std::bit_cast<uint32_t, float>;
  return std::ranges::equal(a, b, [&](const auto& x, const auto& y) { return std::ranges::equal(x, y, {}, bits, bits); });
}

double prefix_hit_ms(const Model& model, const Context& context) {
  Session session = model.session();
  const double ms = ms_of([&] { require_done(session.append(context.tokens)); });
  if (session.metrics().reused_tokens < context.length - 1)
    throw std::runtime_error(fmt::format("only {} of {} positions were found", session.metrics().reused_tokens, context.length));
  return ms;
}

}  // namespace

void bench_tree(const Model& model, std::vector<Context>& contexts, int n_rounds) {
  const Branches branches = make_branches();
  std::vector<double> tree, keep, forks;
  for (const Context& context : contexts) {
    Times times;
    for (int round = 0; round < n_rounds; ++round) {
      const Leaves found = run_tree(context.session, branches, times), expected = run_forks(model, context.session, branches, times);
      if (!have_equal_bits(found, expected)) throw std::runtime_error("the logits of the tree differ from those of the forks");
    }
    tree.push_back(median(times.tree));
    keep.push_back(median(times.keep));
    forks.push_back(median(times.forks));
  }
  print_header(fmt::format("{} branches of {} tokens", branches.n, branches.depth), contexts);
  print_row("append_tree(), one run", tree, "ms");
  print_row("keep() of one branch", keep, "ms");
  print_row(fmt::format("the same with forks, {} runs", branches.depth), forks, "ms");
}

void bench_prefix(const Model& model, std::vector<Context>& contexts, int n_rounds) {
  std::vector<double> load, hit;
  for (const Context& context : contexts) {
    load.push_back(ms_of([&] { model.load_prefix(context.file); }));
    std::vector<double> times;
    for (int round = 0; round < n_rounds; ++round) times.push_back(prefix_hit_ms(model, context));
    hit.push_back(median(std::move(times)));
  }
  print_header("a new session with a known prefix", contexts);
  print_row("load_prefix(), once", load, "ms");
  print_row("append(); computes the last token", hit, "ms");
  const CacheUse use = model.cache_use();
  fmt::print("  {} positions found instead of computed; {:.1f} MB of pages in use, {:.1f} MB allocated\n", use.reused_positions,
             static_cast<double>(use.used_bytes) / 1e6, static_cast<double>(use.allocated_bytes) / 1e6);
}

}  // namespace kvik::bench
