#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/work.h"
#include "kvik/kvik.h"

namespace kvik::engine {

// Cuts tokens into windows, runs each from an empty context, and scores every token but the first of each.
class ScoreWork final : public Work {
 public:
  // Throws Error(kBadArgument) if nothing can be scored, Error(kTooLarge) for a window that exceeds the context.
  ScoreWork(std::shared_ptr<Decoder> decoder, int context, std::vector<TokenId> tokens, const ScoreOptions& options);

  NextPart next() const override;
  Part begin() override;
  void finished(const Part& part) override;

  const Score& score() const { return score_; }  // so far

 private:
  std::span<const TokenId> window_at(size_t first) const;

  std::shared_ptr<Decoder> decoder_;
  int context_;
  std::vector<TokenId> tokens_;
  std::function<void(int done, int total)> progress_;
  size_t next_ = 0;  // the first token of the window that runs, or of the next one
  bool is_running_ = false;
  Score score_;
};

}  // namespace kvik::engine
