#include <fmt/core.h>
#include <random>
#include <stdexcept>

#include "kv.h"
#include "kv/cache_file.h"

namespace kvik::bench {
namespace {

// A saved session with more positions: its pages are repeated. What a page holds does not change how long anything takes.
void write_repeated(const std::filesystem::path& from, const std::filesystem::path& to, std::span<const TokenId> tokens) {
  const kv::SavedCache saved = kv::read_cache(from);
  kv::SavedCache longer = saved;
  const size_t n_positions = saved.tokens.size() / saved.contents.size();  // per page: the saved length is a multiple
  longer.tokens.assign(tokens.begin(), tokens.end());
  for (size_t i = saved.contents.size(); i < tokens.size() / n_positions; ++i)
    longer.contents.push_back(saved.contents[i % saved.contents.size()]);
  kv::write_cache(to, longer);
}

}  // namespace

void require_done(AppendStatus status) {
  if (status != AppendStatus::kDone) throw std::runtime_error("the context is full");
}

std::vector<TokenId> random_tokens(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 1000);
  return tokens;
}

std::vector<Context> make_contexts(const Model& model, const Settings& settings) {
  const std::vector<TokenId> tokens = random_tokens(static_cast<size_t>(settings.lengths.back()), 1);
  Session session = model.session();
  std::vector<Context> contexts;
  double compute_ms = 0;
  for (const int length : settings.lengths) {
    Context context{.length = length,
                    .tokens = {tokens.begin(), tokens.begin() + length},
                    .session = model.session(),
                    .file = settings.scratch / fmt::format("{}.kv", length)};
    if (length <= settings.n_computed || contexts.empty()) {
      const std::span<const TokenId> rest = std::span(context.tokens).subspan(static_cast<size_t>(session.length()));
      compute_ms += ms_of([&] { require_done(session.append(rest)); });
      context.compute_ms = compute_ms;
      context.session = session.fork();
      context.session.save(context.file);
    } else {
      fmt::print("the {} positions after {} are copies of the first {}\n", length - session.length(), session.length(), session.length());
      write_repeated(contexts.back().file, context.file, context.tokens);
      context.session = model.load_session(context.file);
    }
    contexts.push_back(std::move(context));
  }
  return contexts;
}

}  // namespace kvik::bench
