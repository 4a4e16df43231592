#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/state.h"
#include "api/target_setup.h"
#include "engine/sample_strategy.h"

namespace kvik {

struct Generation::State {
  // Computes the prompt. `continued`: the caller's session, or one created for this generation.
  State(std::shared_ptr<Session::State> continued, std::span<const TokenId> prompt, const GenerateOptions& options);
  ~State();

  bool compute_prompt(const GenerateOptions& options);
  void begin(const GenerateOptions& options);
  engine::Watch watch_from(int n_done, const GenerateOptions& options) const;
  void next_token();
  void search();

  std::shared_ptr<Session::State> session;
  std::function<bool()> cancelled;
  std::vector<TokenId> prompt_ids;
  api::TargetSetup setup;
  engine::SampleStrategy* sampling = nullptr;  // of the session's stream
  std::optional<engine::Stream> beams;         // forks of the session
  std::vector<TokenId> ids;
  std::string piece;
  std::optional<Finish> finish;
  bool ended = false;              // the last piece was returned
  std::optional<Metrics> metrics;  // set at the end
};

}  // namespace kvik
