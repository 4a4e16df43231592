#include "api/scorer.h"

#include <fmt/format.h>

namespace kvik {

Score Model::score(std::span<const TokenId> ids, const ScoreOptions& options) const {
  return api::Scorer(state_, {ids.begin(), ids.end()}, options).run();
}

}  // namespace kvik

namespace kvik::api {
namespace {

std::vector<TokenId> scorable(const Model::State& state, std::vector<TokenId> ids) {
  state.check_continues_prompts();
  for (const TokenId id : ids) {
    if (id < 0 || id >= state.traits().vocab)
      throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary of {}", id, state.traits().vocab));
  }
  return ids;
}

}  // namespace

Scorer::Scorer(std::shared_ptr<const Model::State> state, std::vector<TokenId> ids, const ScoreOptions& options)
    : state_(std::move(state)),
      cancelled_(options.cancelled),
      work_(state_->decoder, state_->options.context, scorable(*state_, std::move(ids)), options) {}

Score Scorer::run() { return result(!engine::complete(work_, state_->decoder, {.cancelled = cancelled_})); }

Score Scorer::result(bool cancelled) {
  Score score = work_.score();
  if (cancelled) score.finish = Finish::kCancelled;
  return score;
}

}  // namespace kvik::api
