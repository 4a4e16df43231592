#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/kvik.h"

// Proves or refutes on a model that its results do not depend on how they are computed. `kvik verify` prints it.
namespace kvik {

// An equality between two ways of computing the same logits or ids; both ways were run.
struct Law {
  std::string name;  // "cached = uncached", "batch = alone", "native = ort", …
  int cases = 0;
  bool holds = true;
  bool exact = true;               // equal bits in every case
  double max_difference = 0;       // of two logits
  double relative_difference = 0;  // the same, divided by the standard deviation of the logits
  bool information = false;        // a distance that is reported without a verdict: holds whatever it is
  std::string detail;              // the first case that fails
};

struct VerifyOptions {
  std::vector<TokenId> ids;        // prompt or source to compute; empty: ids from the whole vocabulary
  std::vector<Features> features;  // sources of an encoder that reads features; empty: synthetic ones
  bool compare = true;             // also with other backends, thread counts and instruction sets
  double tolerance = 0;            // greatest relative_difference; 0: equal bits if the backend promises them, else by number format
  std::function<void(std::string_view subject, double tolerance)> on_start;  // "12 tokens"; 0: equal bits are required
  std::function<void(const Law&)> on_law;                                    // as soon as it is known
  std::function<bool()> cancelled;                                           // polled between two laws and two runs before the first one
};

struct Verification {
  double tolerance = 0;
  std::vector<Law> laws;
  Finish finish = Finish::kStop;  // kCancelled: only the laws before the cancellation were tried

  bool holds() const;  // every law
};

Verification verify(const Model& model, const VerifyOptions& options = {});

}  // namespace kvik
