#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"
#include "kvik/verify.h"

namespace kvik::laws {

// The same model opened in another way, which must give the same logits.
struct Peer {
  std::string law;  // "native = ort", "one thread = many", …
  std::shared_ptr<backend::Backend> backend;
  double tolerance = 0;  // see LawBook::law
  // The peer quantizes activations over all rows of a run (dynamic int8): it is run one token at a time, and its distance when all tokens
  // share a run is reported as information. Of an encoder-decoder, whose encoder needs all rows at once, only that distance is reported.
  bool row_by_row = false;
  bool information = false;                             // only its distance is reported
  std::shared_ptr<backend::Backend> instead = nullptr;  // is compared with the peer in place of the model
};

// As in VerifyOptions; all may be empty.
struct Watch {
  std::function<void(const Law&)> on_law;
  std::function<bool()> cancelled;
};

// Collects the results while laws are tried one after another. Used by one thread at a time.
class LawBook {
 public:
  explicit LawBook(Watch watch) : watch_(std::move(watch)) {}

  bool cancelled();  // once true, always true

  // Tries one law, unless cancelled: `body` compares its cases. An Error thrown by it refutes the law. `tolerance` is the greatest
  // difference of two logits as a share of their standard deviation; 0: equal bits are required.
  void law(const std::string& name, double tolerance, const std::function<void()>& body);

  // Reports how far two ways are apart, without a verdict.
  void measure(const std::string& name, const std::function<void()>& body);

  void compare(std::span<const float> found, std::span<const float> expected, const std::string& where);
  void compare_ids(std::span<const TokenId> found, std::span<const TokenId> expected, const std::string& where);
  void require(bool holds, const std::string& otherwise);

  std::vector<Law> take() { return std::move(results_); }

 private:
  void refute(const std::string& detail);

  void run(Law result, double tolerance, const std::function<void()>& body);

  Watch watch_;
  bool cancelled_ = false;
  double tolerance_ = 0;
  Law current_;
  std::vector<Law> results_;
};

}  // namespace kvik::laws
