#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "engine/sequence.h"
#include "sample/rng.h"
#include "sample/sampler.h"

namespace kvik::engine {

enum class Finish { kStop, kLength, kCancelled };

struct GeneratorOptions {
  int max_new_tokens = 0;
  std::vector<TokenId> stop_ids;  // with the model's own end tokens
  bool use_cache = true;          // false: everything is computed again at every step
  AppendWatch watch;
};

struct Timing {
  double prefill_ms = 0;
  double first_token_ms = 0;
  double decode_ms = 0;
  int n_prompt = 0;  // computed
  int n_reused = 0;  // found in the cache
  int n_generated = 0;
};

// The one loop: reads a prompt, then chooses tokens one by one. The sequence, sampler and generator must outlive it.
class Generator {
 public:
  Generator(Sequence& sequence, const sample::Sampler& sampler, sample::Rng& rng, GeneratorOptions options);

  // Reads the prompt; what the sequence already holds of its beginning is kept. Throws Error(kBadArgument) for an empty prompt,
  // Error(kTooLarge) for one that is longer than the context, before anything runs.
  void start(std::vector<TokenId> prompt);

  // The next token; nothing after the last, when finish() says why.
  std::optional<TokenId> next();

  // Ends generation before the next token.
  void stop() { finish_ = Finish::kStop; }

  std::optional<Finish> finish() const { return finish_; }
  const Timing& timing() const { return timing_; }
  const GeneratorOptions& options() const { return options_; }

 private:
  std::optional<TokenId> choose();
  bool append_last();

  Sequence& sequence_;
  const sample::Sampler& sampler_;
  sample::Rng& rng_;
  GeneratorOptions options_;
  std::vector<TokenId> tokens_;  // the prompt, then what was chosen
  size_t n_prompt_ = 0;
  int n_left_ = 0;
  std::vector<float> row_;  // the sampler writes into it
  sample::Workspace workspace_;
  std::optional<Finish> finish_;
  Timing timing_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace kvik::engine
