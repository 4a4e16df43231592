#include "sample/options.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kvik::sample {
namespace {

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T>;

// Collects the first problem.
class Check {
 public:
  explicit Check(size_t vocab_size) : vocab_size_(vocab_size) {}

  template <class T>
  void operator()(const SamplingField& field, const T& value) {
    if constexpr (is_number<T>) {
      const auto number = static_cast<double>(value);
      require(number >= field.lowest && number <= field.highest, fmt::format("{} is {}; it must be {}", field.name, value, field.range));
      // An id is a number too: -1 means none.
      if (field.no_effect == -1 && number >= 0) id(field.name, static_cast<TokenId>(value));
    } else {
      list(field, value);
    }
  }

  std::string take() { return std::move(problem_); }

 private:
  void require(bool holds, const std::string& otherwise) {
    if (!holds && problem_.empty()) problem_ = otherwise;
  }

  void id(std::string_view name, TokenId id) {
    require(id >= 0 && static_cast<size_t>(id) < vocab_size_,
            fmt::format("{} has the id {}; the vocabulary has the ids 0 to {}", name, id, static_cast<int64_t>(vocab_size_) - 1));
  }
  void bias(std::string_view name, double bias) {
    require(bias < INFINITY, fmt::format("a bias of {} is {}; it must be a number, or minus infinity to ban", name, bias));  // also NaN
  }
  // Ids that are only banned may be outside the vocabulary: then there is nothing to ban.
  void list(const SamplingField& field, const std::vector<TokenId>& ids) {
    if (field.name != "forced_eos_token_id") return;
    for (const TokenId one : ids) id(field.name, one);
  }
  void list(const SamplingField& field, const std::vector<std::vector<TokenId>>& sequences) {
    for (const std::vector<TokenId>& sequence : sequences) {
      require(!sequence.empty(), fmt::format("a sequence of {} is empty; it must have at least one id", field.name));
      for (const TokenId one : sequence) require(one >= 0, fmt::format("an id of {} is {}; it must be 0 or more", field.name, one));
    }
  }
  void list(const SamplingField& field, const std::vector<SequenceBias>& biases) {
    for (const SequenceBias& entry : biases) {
      require(!entry.ids.empty(), fmt::format("a sequence of {} is empty; it must have at least one id", field.name));
      for (const TokenId one : entry.ids) id(field.name, one);
      bias(field.name, entry.bias);
    }
  }
  void list(const SamplingField& field, const std::vector<std::pair<TokenId, double>>& biases) {
    for (const auto& [one, added] : biases) id(field.name, one), bias(field.name, added);
  }
  void list(const SamplingField& field, const DecayLengthPenalty& decay) {
    require(decay.start >= 0, fmt::format("the start of {} is {}; it must be 0 or more", field.name, decay.start));
    require(decay.factor > 0 && std::isfinite(decay.factor),
            fmt::format("the factor of {} is {}; it must be a positive number", field.name, decay.factor));
  }

  size_t vocab_size_;
  std::string problem_;
};

bool is_same(const SequenceBias& a, const SequenceBias& b) { return a.ids == b.ids && a.bias == b.bias; }
bool is_same(const DecayLengthPenalty& a, const DecayLengthPenalty& b) { return a.start == b.start && a.factor == b.factor; }
template <class T>
bool is_same(const T& a, const T& b) {
  return a == b;
}
bool is_same(const std::vector<SequenceBias>& a, const std::vector<SequenceBias>& b) {
  return std::ranges::equal(a, b, [](const SequenceBias& x, const SequenceBias& y) { return is_same(x, y); });
}

}  // namespace

bool are_equal(const Sampling& a, const Sampling& b) {
  return std::ranges::all_of(sampling_fields(), [&](const SamplingField& field) {
    return std::visit(
        [&](auto member) {
          const auto &x = a.*member, &y = b.*member;
          return x.has_value() == y.has_value() && (!x || is_same(*x, *y));
        },
        field.member);
  });
}

Sampling merged(Sampling base, const Sampling& wanted) {
  for (const SamplingField& field : sampling_fields()) {
    std::visit(
        [&](auto member) {
          if (wanted.*member) base.*member = wanted.*member;
        },
        field.member);
  }
  return base;
}

Sampling with_defaults(Sampling sampling) {
  for (const SamplingField& field : sampling_fields()) {
    std::visit(
        [&]<class T>(std::optional<T> Sampling::*member) {
          if constexpr (is_number<T>) {
            if (!(sampling.*member)) sampling.*member = static_cast<T>(field.no_effect);
          }
        },
        field.member);
  }
  return sampling;
}

std::string problem_of(const Sampling& sampling, size_t vocab_size) {
  Check check(vocab_size);
  for (const SamplingField& field : sampling_fields()) {
    std::visit(
        [&](auto member) {
          if (sampling.*member) check(field, *(sampling.*member));
        },
        field.member);
  }
  return check.take();
}

}  // namespace kvik::sample
