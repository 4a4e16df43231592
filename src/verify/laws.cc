#include "verify/laws.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvik/error.h"

namespace kvik::laws {
namespace {

double spread_of(std::span<const float> row) {
  double sum = 0, squares = 0;
  for (const float value : row) sum += value, squares += static_cast<double>(value) * value;
  const auto n = static_cast<double>(row.size());
  return std::sqrt(std::max(0.0, squares / n - (sum / n) * (sum / n)));
}

}  // namespace

void LawBook::law(const std::string& name, double tolerance, const std::function<void()>& body) { run(Law{.name = name}, tolerance, body); }

void LawBook::measure(const std::string& name, const std::function<void()>& body) {
  run(Law{.name = name, .information = true}, INFINITY, body);
}

void LawBook::run(Law result, double tolerance, const std::function<void()>& body) {
  if (cancelled()) return;
  current_ = std::move(result);
  tolerance_ = tolerance;
  try {
    body();
  } catch (const Error& e) { refute(e.what()); }
  if (watch_.on_law) watch_.on_law(current_);
  results_.push_back(std::move(current_));
}

bool LawBook::cancelled() {
  cancelled_ = cancelled_ || (watch_.cancelled && watch_.cancelled());
  return cancelled_;
}

void LawBook::refute(const std::string& detail) {
  if (current_.holds) current_.detail = detail;
  current_.holds = current_.information;
  current_.exact = false;
}

void LawBook::compare(std::span<const float> found, std::span<const float> expected, const std::string& where) {
  ++current_.cases;
  double difference = 0;
  bool comparable = found.size() == expected.size();
  for (size_t i = 0; comparable && i < expected.size(); ++i) {
    if (found[i] == expected[i]) continue;
    const double here = std::fabs(static_cast<double>(found[i]) - expected[i]);
    comparable = std::isfinite(here);
    difference = std::max(difference, here);
  }
  const double relative = comparable ? difference / std::max(spread_of(expected), 1e-30) : INFINITY;
  current_.max_difference = std::max(current_.max_difference, comparable ? difference : INFINITY);
  current_.relative_difference = std::max(current_.relative_difference, relative);
  if (difference == 0 && comparable) return;
  current_.exact = false;
  if (relative > tolerance_) refute(fmt::format("{}: logits differ by {:.3g}, {:.3g} of their spread", where, difference, relative));
}

void LawBook::compare_ids(std::span<const TokenId> found, std::span<const TokenId> expected, const std::string& where) {
  ++current_.cases;
  if (std::ranges::equal(found, expected)) return;
  refute(fmt::format("{}: {} instead of {}", where, fmt::join(found, ","), fmt::join(expected, ",")));
}

void LawBook::require(bool holds, const std::string& otherwise) {
  ++current_.cases;
  if (!holds) refute(otherwise);
}

}  // namespace kvik::laws
