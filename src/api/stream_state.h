#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/request_state.h"
#include "api/state.h"
#include "api/target_setup.h"
#include "engine/sample_strategy.h"
#include "kvik/engine.h"

namespace kvik {

// A generation: work of one part.
struct Stream::State final : api::RequestState, private engine::Work {
  State(std::shared_ptr<const Model::State> of, std::span<const TokenId> prompt, const GenerateOptions& options, const RequestOptions& how);

  engine::Work& work() override { return *this; }
  void ended(bool cancelled, std::exception_ptr failure) override;

  const std::shared_ptr<const Model::State> model;
  const std::vector<TokenId> prompt_ids;
  std::atomic<bool> has_prompt{false};  // computed, or never will be

  // Behind the mutex:
  std::string text;  // that was not read yet
  std::vector<TokenId> ids;
  std::vector<GeneratedToken> tokens;  // that were not polled yet
  Metrics metrics;
  std::optional<Finish> finish;

  std::string piece;  // of the reader

 private:
  engine::NextPart next() const override;
  engine::Part begin() override;
  void generated(const engine::Part& part) override;
  void finished(const engine::Part& /*part*/) override {}
  void end_early(Finish with);
  Metrics measure() const;

  std::shared_ptr<const State> same_prompt_;  // until it joins
  api::TargetSetup setup_;
  std::shared_ptr<engine::Stream> stream_;      // until it has ended
  engine::SampleStrategy* sampling_ = nullptr;  // null: beams
  bool has_begun_ = false;
};

}  // namespace kvik
