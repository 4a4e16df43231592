#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"

namespace kvik::engine {

// What was found of one law: two ways to the same logits (or ids), run for real.
struct LawResult {
  std::string name;
  int cases = 0;
  bool holds = true;
  bool exact = true;               // equal bits in every case
  bool information = false;        // a distance that is reported, not judged: `holds` is true whatever it is
  double max_difference = 0;       // largest difference of two logits
  double relative_difference = 0;  // the same, against the spread of the logits around it
  std::string detail;              // the first case that fails, in words
};

// The same model opened in another way, which must give the same logits.
struct Peer {
  std::string law;  // "native = ort", "one thread = many", …
  std::shared_ptr<backend::Backend> backend;
  double tolerance = 0;  // see LawBook::law
  // The peer quantizes activations over all rows of a run (dynamic int8): it is run one token at a time, and its distance when all tokens
  // share a run is reported as information. Of an encoder-decoder, whose encoder needs all rows at once, only that distance is reported.
  bool row_by_row = false;
};

// Keeps what was found while laws are tried one after another. Not for several threads at once.
class LawBook {
 public:
  using Report = std::function<void(const LawResult&)>;
  // `report` gets each law as soon as it is known; may be empty.
  explicit LawBook(Report report) : report_(std::move(report)) {}

  // Tries one law: `body` compares its cases. An Error out of it refutes the law. `tolerance` is the share of the logits' own spread by
  // which two ways may differ; 0: equal bits are demanded.
  void law(const std::string& name, double tolerance, const std::function<void()>& body);

  // Reports how far two ways are apart and judges nothing.
  void measure(const std::string& name, const std::function<void()>& body);

  void compare(std::span<const float> found, std::span<const float> expected, const std::string& where);
  void compare_ids(std::span<const TokenId> found, std::span<const TokenId> expected, const std::string& where);
  void require(bool holds, const std::string& otherwise);

  std::vector<LawResult> take() { return std::move(results_); }

 private:
  void refute(const std::string& detail);

  void run(LawResult result, double tolerance, const std::function<void()>& body);

  Report report_;
  double tolerance_ = 0;
  LawResult current_;
  std::vector<LawResult> results_;
};

}  // namespace kvik::engine
