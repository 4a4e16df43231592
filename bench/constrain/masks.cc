// Time to find the tokens that a constraint allows, step by step along given texts.
//
//   bench-constrain TOKENIZER CASES     CASES: [{"schema": TEXT, "texts": [[ID, …], …]}, …]
//
// Prints {"vocabulary_ms": …, "compile_ms": [per schema], "mask_us": [per step, in order], "first_mask_us": [the first text of each
// schema], "refused": [...]}. Texts of one schema follow each other as requests of a server do: the first finds masks, later ones find many
// of them in the cache.
#include <chrono>
#include <iostream>

#include "api/constraint_state.h"
#include "base/json.h"

namespace {

using kvik::Json;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) { return std::chrono::duration<double, std::micro>(Clock::now() - start).count(); }

void measure(const Json& one, const kvik::text::Tokenizer& tokenizer, kvik::api::ModelConstraints& constraints, Json& out) {
  Clock::time_point start = Clock::now();
  const kvik::Constraint constraint = kvik::Constraint::json_schema(one["schema"].get<std::string>());
  const auto bound = constraints.bind(constraint, &tokenizer, static_cast<size_t>(tokenizer.end_id()));
  out["compile_ms"].push_back(us_since(start) / 1e3);
  bool is_first = true;
  for (const Json& ids : one["texts"]) {
    kvik::constrain::Matcher matcher(bound);
    for (const Json& id : ids) {
      start = Clock::now();
      const kvik::constrain::Allowed allowed = matcher.allowed();
      const double us = us_since(start);
      out["mask_us"].push_back(us);
      if (is_first) out["first_mask_us"].push_back(us);
      if (allowed.tokens->contains(id.get<kvik::TokenId>()) && matcher.accept(id.get<kvik::TokenId>())) continue;
      out["refused"].push_back(one["schema"]);
      break;
    }
    is_first = false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: bench-constrain TOKENIZER CASES\n";
    return 2;
  }
  try {
    const auto tokenizer = kvik::text::Tokenizer::load(argv[1]);
    kvik::api::ModelConstraints constraints;
    const Clock::time_point start = Clock::now();
    constraints.bind(kvik::Constraint::regex("a"), tokenizer.get(), static_cast<size_t>(tokenizer->end_id()));  // reads the vocabulary
    Json out = {{"vocabulary_ms", us_since(start) / 1e3},
                {"compile_ms", Json::array()},
                {"mask_us", Json::array()},
                {"first_mask_us", Json::array()},
                {"refused", Json::array()}};
    for (const Json& one : kvik::read_json_file(argv[2])) measure(one, *tokenizer, constraints, out);
    std::cout << out.dump() << "\n";
  } catch (const std::exception& e) {
    std::cerr << "bench-constrain: " << e.what() << "\n";
    return 1;
  }
}
