#pragma once

#include "api/call.h"
#include "api/state.h"
#include "engine/score.h"

namespace kvik::api {

// One call of Model::score().
class Scorer final : public Call<Score> {
 public:
  // Throws Error for ids outside the vocabulary, and if nothing can be scored.
  Scorer(std::shared_ptr<const Model::State> state, std::vector<TokenId> ids, const ScoreOptions& options);

  Score run();  // on the calling thread

  engine::Work& work() override { return work_; }
  std::function<bool()> cancelled() const override { return cancelled_; }
  Score result(bool cancelled) override;

 private:
  std::shared_ptr<const Model::State> state_;
  std::function<bool()> cancelled_;
  engine::ScoreWork work_;
};

}  // namespace kvik::api
