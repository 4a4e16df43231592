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
  double max_difference = 0;       // largest difference of two logits
  double relative_difference = 0;  // the same, against the spread of the logits around it
  std::string detail;              // the first case that fails, in words
};

// The same model opened in another way, which must give the same logits.
struct Peer {
  std::string law;  // "native = ort", "one thread = many", …
  std::shared_ptr<backend::Backend> backend;
  double tolerance = 0;  // see LawBook::law
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

  void compare(std::span<const float> found, std::span<const float> expected, const std::string& where);
  void compare_ids(std::span<const TokenId> found, std::span<const TokenId> expected, const std::string& where);
  void require(bool holds, const std::string& otherwise);

  std::vector<LawResult> take() { return std::move(results_); }

 private:
  void refute(const std::string& detail);

  Report report_;
  double tolerance_ = 0;
  LawResult current_;
  std::vector<LawResult> results_;
};

}  // namespace kvik::engine
