#include "kv.h"

namespace kvik::bench {
namespace {

constexpr int kMany = 64;  // of what takes microseconds

// Time of one call for each of kMany forks.
template <class Fn>
double ms_per_fork(const Session& session, Fn&& fn) {
  std::vector<Session> forks;
  for (int i = 0; i < kMany; ++i) forks.push_back(session.fork());
  return ms_of([&] {
           for (Session& fork : forks) fn(fork);
         }) /
         kMany;
}

double fork_ms(Context& context) {
  std::vector<Session> forks;
  forks.reserve(kMany);
  return ms_of([&] {
           for (int i = 0; i < kMany; ++i) forks.push_back(context.session.fork());
         }) /
         kMany;
}

double rewind_ms(Context& context) {
  return ms_per_fork(context.session, [&](Session& fork) { fork.rewind(context.length / 2); });
}

// A fork's first token copies the last page if that is not full; the second one does not.
double step_ms(Context& context) {
  Session fork = context.session.fork();
  require_done(fork.append(context.tokens.front()));
  return ms_of([&] { require_done(fork.append(context.tokens.front())); });
}

double save_ms(Context& context) {
  return ms_of([&] { context.session.save(context.file); });
}

template <class Fn>
std::vector<double> medians(std::vector<Context>& contexts, int n_rounds, Fn&& ms) {
  std::vector<double> row;
  for (Context& context : contexts) {
    std::vector<double> times;
    for (int round = 0; round < n_rounds; ++round) times.push_back(ms(context));
    row.push_back(median(std::move(times)));
  }
  return row;
}

}  // namespace

void bench_times(const Model& model, std::vector<Context>& contexts, int n_rounds) {
  std::vector<double> computed, file_bytes;
  for (const Context& context : contexts) {
    computed.push_back(context.compute_ms > 0 ? context.compute_ms : -1);
    file_bytes.push_back(static_cast<double>(std::filesystem::file_size(context.file)));
  }
  const auto load_ms = [&](Context& context) { return ms_of([&] { const Session loaded = model.load_session(context.file); }); };
  print_header("time, by positions of the context", contexts);
  print_row("compute the context (once)", computed, "ms");
  print_row("append a token", medians(contexts, n_rounds, step_ms), "ms");
  print_row("fork", medians(contexts, n_rounds, fork_ms), "ms");
  print_row("rewind to half", medians(contexts, n_rounds, rewind_ms), "ms");
  print_row("save", medians(contexts, n_rounds, save_ms), "ms");
  print_row("load, file in the page cache", medians(contexts, n_rounds, load_ms), "ms");
  print_row("size of the file", file_bytes, "bytes");
}

}  // namespace kvik::bench
