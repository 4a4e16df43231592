#include "constrain/schema/number_patterns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <numeric>

#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr int64_t kMostInteger = 9'999'999'999'999'999;  // 16 digits
constexpr int kMostDigits = 18;                          // of a bound
constexpr double kAboveAll = 1e18;                       // what is written, also above a bound
constexpr uint64_t kMostMultiple = 10'000;
constexpr uint32_t kMostDecimals = 4;     // of a multiple
constexpr uint64_t kMostListed = 20'000;  // multiples that have no exact binary form
constexpr const char* kAnyFraction = R"((?:\.[0-9]{1,16})?)";

// |value| as digits before and after the point, which has no zeros at its end.
struct Decimal {
  bool negative = false;
  int64_t whole = 0;
  std::string fraction;
  bool is_zero() const { return whole == 0 && fraction.empty(); }
};

Decimal decimal_of(const std::string& text, const std::string& where) {
  const auto fail = [&] {
    throw Error(Code::kBadArgument,
                fmt::format("the JSON schema, {}: the number {} has too many digits; at most {} are supported", where, text, kMostDigits));
  };
  Decimal decimal;
  size_t at = text[0] == '-' ? 1 : 0;
  decimal.negative = at == 1;
  std::string whole, fraction;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') whole += text[at++];
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9';) fraction += text[at++];
  }
  int exponent = 0;
  if (at < text.size()) {
    const char* const first = text.data() + at + (text[at + 1] == '+' ? 2 : 1);
    std::from_chars(first, text.data() + text.size(), exponent);
  }
  if (exponent > kMostDigits || exponent < -kMostDigits) fail();
  for (; exponent > 0; --exponent) {
    whole += fraction.empty() ? '0' : fraction[0];
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(fraction.begin(), whole.empty() ? '0' : whole.back());
    if (!whole.empty()) whole.pop_back();
  }
  fraction.erase(fraction.find_last_not_of('0') + 1);
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  if (whole.size() > kMostDigits || fraction.size() > kMostDigits) fail();
  std::from_chars(whole.data(), whole.data() + whole.size(), decimal.whole);
  decimal.fraction = fraction;
  return decimal;
}

std::string any_digits(size_t n) { return n == 0 ? "" : fmt::format("[0-9]{{{}}}", n); }
std::string digit_range(char first, char last) { return first == last ? std::string(1, first) : fmt::format("[{}-{}]", first, last); }

// Digits of the same number that are at least or at most these.
std::string at_least(const std::string& digits) {
  if (digits.empty()) return "";
  std::string options = digits[0] + at_least(digits.substr(1));
  if (digits[0] < '9') options += '|' + digit_range(static_cast<char>(digits[0] + 1), '9') + any_digits(digits.size() - 1);
  return "(?:" + options + ")";
}
std::string at_most(const std::string& digits) {
  if (digits.empty()) return "";
  std::string options = digits[0] + at_most(digits.substr(1));
  if (digits[0] > '0') options += '|' + digit_range('0', static_cast<char>(digits[0] - 1)) + any_digits(digits.size() - 1);
  return "(?:" + options + ")";
}

std::string between(const std::string& least, const std::string& most) {
  if (least.empty()) return "";
  if (least[0] == most[0]) return least[0] + between(least.substr(1), most.substr(1));
  std::string options = least[0] + at_least(least.substr(1)) + '|' + most[0] + at_most(most.substr(1));
  if (least[0] + 1 < most[0])
    options += '|' + digit_range(static_cast<char>(least[0] + 1), static_cast<char>(most[0] - 1)) + any_digits(least.size() - 1);
  return "(?:" + options + ")";
}

// 0 <= least <= most.
std::string whole_numbers(int64_t least, int64_t most) {
  std::string options;
  while (true) {
    const std::string digits = std::to_string(least);
    const std::string nines(digits.size(), '9');
    const std::string last = std::to_string(most).size() == digits.size() ? std::to_string(most) : nines;
    options += (options.empty() ? "" : "|") + between(digits, last);
    if (last != nines || std::to_string(most) == nines) break;
    least = std::stoll(nines) + 1;
  }
  return "(?:" + options + ")";
}

CharDfa numbers_matching(const std::string& pattern) {
  return CharDfa::of_whole(parse_pattern(pattern, "range of numbers"), "range of numbers");
}

std::string beyond(const std::string& fraction, bool exclusive) {
  if (fraction.empty()) return exclusive ? R"(\.0{0,15}[1-9][0-9]{0,15})" : kAnyFraction;
  std::string options = fraction + (exclusive ? "0{0,15}[1-9][0-9]{0,15}" : "[0-9]{0,16}");
  for (size_t i = 0; i < fraction.size(); ++i) {
    if (fraction[i] < '9') options += '|' + fraction.substr(0, i) + digit_range(static_cast<char>(fraction[i] + 1), '9') + "[0-9]{0,16}";
  }
  return "\\.(?:" + options + ")";
}

// Empty if there are none.
std::string up_to(const std::string& fraction, bool exclusive) {
  if (fraction.empty()) return exclusive ? "" : R"((?:\.0{1,16})?)";
  std::string options = exclusive ? "" : fraction + "0{0,16}";
  const auto add = [&](const std::string& option) { options += (options.empty() ? "" : "|") + option; };
  for (size_t i = 0; i < fraction.size(); ++i) {
    if (i > 0) add(fraction.substr(0, i) + "0{0,16}");
    if (fraction[i] > '0') add(fraction.substr(0, i) + digit_range('0', static_cast<char>(fraction[i] - 1)) + "[0-9]{0,16}");
  }
  return "(?:\\.(?:" + options + "))?";
}

struct Side {
  Decimal decimal;
  bool exclusive = false;
};

// Numbers from 0 on.
void add_numbers(const Side& least, const std::optional<Side>& most, std::vector<CharDfa>& out) {
  const int64_t first = least.decimal.whole;
  const int64_t last = most ? most->decimal.whole : std::max(kMostInteger, first);
  if (first > last) return;
  const CharDfa from = numbers_matching(std::to_string(first) + beyond(least.decimal.fraction, least.exclusive));
  const std::string end = most ? up_to(most->decimal.fraction, most->exclusive) : kAnyFraction;
  const bool has_end = !most || !most->decimal.fraction.empty() || !most->exclusive;
  if (first == last) {
    if (has_end) out.push_back(from.intersect(numbers_matching(std::to_string(last) + end)));
    return;
  }
  out.push_back(from);
  if (first + 1 < last) out.push_back(numbers_matching(whole_numbers(first + 1, last - 1) + kAnyFraction));
  if (has_end) out.push_back(numbers_matching(std::to_string(last) + end));
}

// Nothing if all numbers that are written are within the bound.
std::optional<Side> side_of(const std::optional<Bound>& bound, bool lower, const std::string& where) {
  if (!bound || (lower ? -bound->value : bound->value) >= kAboveAll) return std::nullopt;
  return Side{decimal_of(bound->text, where), bound->exclusive};
}

// The smallest integer that is not below, the largest that is not above.
int64_t integer_from(const Side& side, bool lower) {
  const Decimal& d = side.decimal;
  const int64_t toward_zero = d.negative ? -d.whole : d.whole;
  if (!d.fraction.empty()) {
    if (lower) return d.negative ? toward_zero : toward_zero + 1;
    return d.negative ? toward_zero - 1 : toward_zero;
  }
  if (!side.exclusive) return toward_zero;
  return lower ? toward_zero + 1 : toward_zero - 1;
}

uint64_t power(uint64_t base, uint32_t exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

// digits / 10^n_decimals
struct Step {
  uint64_t digits;
  uint32_t n_decimals;

  bool is_exact_in_binary() const { return digits % power(5, n_decimals) == 0; }
  uint64_t whole() const { return digits / std::gcd(digits, power(10, n_decimals)); }  // whole numbers that are multiples are those of it
  std::string text_of_multiple(uint64_t n) const {
    std::string text = std::to_string(n * digits);
    if (n_decimals == 0) return text;
    if (text.size() <= n_decimals) text.insert(0, n_decimals + 1 - text.size(), '0');
    text.insert(text.size() - n_decimals, ".");
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text;
  }
};

std::optional<Step> small_step(const std::string& text) {
  const Decimal multiple = decimal_of(text, "");
  const auto n_decimals = static_cast<uint32_t>(multiple.fraction.size());
  if (multiple.negative || multiple.is_zero() || n_decimals > kMostDecimals || static_cast<uint64_t>(multiple.whole) > kMostMultiple)
    return std::nullopt;
  const uint64_t fraction = multiple.fraction.empty() ? 0 : std::stoull(multiple.fraction);
  const Step step{static_cast<uint64_t>(multiple.whole) * power(10, n_decimals) + fraction, n_decimals};
  return step.digits <= kMostMultiple ? std::optional(step) : std::nullopt;
}

Step step_of(const std::string& text, const std::string& where) {
  const Decimal multiple = decimal_of(text, where);
  if (multiple.negative || multiple.is_zero())
    throw Error(Code::kBadArgument, fmt::format("the JSON schema, {}: multipleOf {} is not above 0", where, text));
  const std::optional<Step> step = small_step(text);
  if (!step)
    throw Error(Code::kBadArgument, fmt::format("the JSON schema, {}: multipleOf {} is not supported; at most {} units of its last decimal "
                                                "and at most {} decimals were expected",
                                                where, text, kMostMultiple, kMostDecimals));
  return *step;
}

NumberTexts multiples_in(const NumberTexts& range, const Step& step) {
  const CharDfa multiples = CharDfa::of_multiples(static_cast<uint32_t>(step.digits), step.n_decimals);
  NumberTexts texts;
  for (const CharDfa& numbers : range.positive) texts.positive.push_back(numbers.intersect(multiples));
  for (const CharDfa& numbers : range.negative) texts.negative.push_back(numbers.intersect(multiples));
  return texts;
}

// Each of them, if it is a multiple in binary arithmetic too.
NumberTexts listed_multiples(const NumberRange& range, const NumberTexts& all, const Step& step, const std::string& where) {
  const double size = std::strtod(range.multiple_of->c_str(), nullptr);
  const double n_values = range.least && range.most ? (range.most->value - range.least->value) / size : HUGE_VAL;
  const double largest = range.least && range.most ? std::max(std::abs(range.least->value), std::abs(range.most->value)) / size : 0;
  if (!(n_values <= static_cast<double>(kMostListed)) || !(largest <= 1e12))
    throw Error(Code::kBadArgument,
                fmt::format("the JSON schema, {}: multipleOf {} is supported only between a minimum and a maximum with at most {} values",
                            where, *range.multiple_of, kMostListed));
  std::vector<std::string> positive, negative;
  const auto is_among = [](const std::vector<CharDfa>& list, const std::string& text) {
    return std::ranges::any_of(list, [&](const CharDfa& dfa) { return dfa.matches(text); });
  };
  for (auto n = static_cast<int64_t>(range.least->value / size) - 1; n <= static_cast<int64_t>(range.most->value / size) + 1; ++n) {
    const std::string text = step.text_of_multiple(static_cast<uint64_t>(std::abs(n)));
    const double quotient = std::strtod(text.c_str(), nullptr) / size;
    if (quotient != std::floor(quotient)) continue;
    if (n >= 0 && is_among(all.positive, text)) positive.push_back(text);
    if (n < 0 && is_among(all.negative, text)) negative.push_back(text);
  }
  return {{CharDfa::of_texts(std::move(positive))}, {CharDfa::of_texts(std::move(negative))}};
}

}  // namespace

std::string common_multiple(const std::string& a, const std::string& b) {
  if (a == b) return a;
  const std::optional<Step> one = small_step(a), other = small_step(b);
  if (!one || !other) return one ? b : a;
  const uint32_t n_decimals = std::max(one->n_decimals, other->n_decimals);
  const auto scaled = [&](const Step& step) { return step.digits * power(10, n_decimals - step.n_decimals); };
  return Step{std::lcm(scaled(*one), scaled(*other)), n_decimals}.text_of_multiple(1);
}

NumberTexts integers_in(const NumberRange& range, const std::string& where) {
  const std::optional<Side> least = side_of(range.least, true, where), most = side_of(range.most, false, where);
  int64_t first = least ? integer_from(*least, true) : std::min(-kMostInteger, most ? integer_from(*most, false) : 0);
  int64_t last = most ? integer_from(*most, false) : std::max(kMostInteger, first);
  NumberTexts texts;
  const auto add = [&](int64_t from, int64_t to, std::vector<CharDfa>& out) {
    CharDfa numbers = numbers_matching(whole_numbers(from, to));
    if (range.multiple_of) {
      const auto whole = static_cast<uint32_t>(step_of(*range.multiple_of, where).whole());
      numbers = numbers.intersect(CharDfa::of_multiples(whole));
    }
    out.push_back(std::move(numbers));
  };
  if (first > last) return texts;
  if (last >= 0) add(std::max<int64_t>(first, 0), last, texts.positive);
  if (first < 0) add(std::max<int64_t>(1, -last), -first, texts.negative);
  return texts;
}

NumberTexts numbers_in(const NumberRange& range, const std::string& where) {
  if (range.multiple_of) {
    const Step step = step_of(*range.multiple_of, where);
    if (step.n_decimals == 0) return integers_in(range, where);
    const NumberTexts all = numbers_in({range.least, range.most, std::nullopt}, where);
    return step.is_exact_in_binary() ? multiples_in(all, step) : listed_multiples(range, all, step, where);
  }
  const std::optional<Side> least = side_of(range.least, true, where), most = side_of(range.most, false, where);
  NumberTexts texts;
  const bool can_be_positive = !most || !most->decimal.negative || most->decimal.is_zero();
  const bool from_zero = !least || least->decimal.negative;
  if (can_be_positive) add_numbers(from_zero ? Side{} : *least, most, texts.positive);
  const bool can_be_negative = !least || (least->decimal.negative && !least->decimal.is_zero());
  const bool to_zero = !most || !most->decimal.negative || most->decimal.is_zero();
  if (can_be_negative) add_numbers(to_zero ? Side{{}, true} : *most, least, texts.negative);
  return texts;
}

}  // namespace kvik::constrain
