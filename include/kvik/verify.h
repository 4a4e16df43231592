#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/kvik.h"

// Tests whether a model's results depend on how they are computed. `kvik verify` prints this.
namespace kvik {

// An equality between two ways of computing the same logits or ids. Both were run and compared.
struct Law {
  std::string name;  // "cached = uncached", "batch = alone", "native = ort", …
  int cases = 0;
  bool holds = true;
  bool exact = true;               // equal bits in every case
  double max_difference = 0;       // between two logits
  double relative_difference = 0;  // max_difference / standard deviation of the logits
  bool information = false;        // a difference that is only reported: `holds` is always true
  std::string detail;              // the first case that fails
};

struct VerifyOptions {
  std::vector<TokenId> ids;        // prompt or source; empty: ids from the whole vocabulary
  std::vector<Features> features;  // sources for an encoder that reads features; empty: synthetic ones
  bool compare = true;             // also compare with other backends, thread counts and instruction sets
  double tolerance = 0;            // largest relative_difference; 0: equal bits if the backend guarantees them, else by number format
  std::function<void(std::string_view subject, double tolerance)> on_start;  // "12 tokens"; 0: equal bits are required
  std::function<void(const Law&)> on_law;                                    // called after each law
  std::function<bool()> cancelled;                                           // polled between laws, and between runs before the first
};

struct Verification {
  double tolerance = 0;
  std::vector<Law> laws;
  Finish finish = Finish::kStop;  // kCancelled: only the laws before the cancellation were tested

  bool holds() const;  // all laws hold
};

// Blocks until done; runs the model many times.
Verification verify(const Model& model, const VerifyOptions& options = {});

}  // namespace kvik
