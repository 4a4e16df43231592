#pragma once

#include <span>
#include <vector>

#include "engine/sequence.h"
#include "engine/workers.h"
#include "sample/beam.h"

namespace kvik::engine {

// A finished target of a stream.
struct Target {
  std::vector<TokenId> ids;  // without the prompt, including the end token if there is one
  float score = 0;           // sum of log-probabilities / length^length_penalty
  Finish finish = Finish::kLength;
};

// How the sequences of one stream continue. Used by one thread at a time.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // True: see() is called with the logits of every position, not only advance() with the last ones.
  virtual bool wants_every_row() const { return false; }
  virtual void see(int /*position*/, std::span<const float> /*logits*/) {}

  // How many of the largest logits advance() usually reads; 0: all.
  virtual int n_candidates() const { return 0; }

  // Called when all tokens of all branches are computed and known_logits() are available. Returns which branches continue with which
  // token, valid until the next call; empty if the stream is finished. Throws Error(kBadModel) if no token can be chosen. Strategies of
  // different streams advance concurrently on any thread, so state that they share must be thread-safe.
  virtual std::span<const sample::Continuation> advance(std::span<const Sequence> branches, Workers& workers) = 0;

  virtual double mask_ms() const { return 0; }                // time spent so far finding the tokens that a constraint allows
  virtual Finish finish() const { return Finish::kStop; }     // of a finished stream
  virtual std::vector<Target> targets() const { return {}; }  // best first
};

}  // namespace kvik::engine
