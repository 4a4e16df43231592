#include "text/template/template.h"

#include <chrono>

#include "text/template/interpreter.h"

namespace kvik::text::jinja {
namespace {

// Computes the day of the week and of the year from the date.
void complete(std::tm& time) {
  constexpr int kDaysBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const int year = time.tm_year + 1900;
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  time.tm_yday = kDaysBefore[time.tm_mon] + time.tm_mday - 1 + (is_leap && time.tm_mon > 1 ? 1 : 0);
  const int days = (year - 1) * 365 + (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 + time.tm_yday;
  time.tm_wday = (days + 1) % 7;  // the first day of year 1 was a Monday
  time.tm_isdst = -1;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Parses a number of up to this many digits at the start of the text; false if there is none.
bool take_number(std::string_view& text, int most_digits, int& number) {
  if (text.empty() || !is_digit(text.front())) return false;
  number = 0;
  for (int i = 0; i < most_digits && !text.empty() && is_digit(text.front()); ++i) {
    number = number * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  return true;
}

// The value of the digits after a decimal point.
int microseconds(std::string_view digits) {
  int total = 0;
  for (int unit = 100'000; unit > 0 && !digits.empty() && is_digit(digits.front()); unit /= 10) {
    total += (digits.front() - '0') * unit;
    digits.remove_prefix(1);
  }
  return total;
}

}  // namespace

Moment system_clock() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  Moment moment;
  localtime_r(&seconds, &moment.local);
  const auto since_epoch = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  moment.microseconds = static_cast<int>(since_epoch % 1'000'000);
  return moment;
}

std::optional<Moment> parse_moment(std::string_view iso) {
  Moment moment;
  std::tm& time = moment.local;
  if (!take_number(iso, 4, time.tm_year) || !take(iso, '-') || !take_number(iso, 2, time.tm_mon) || !take(iso, '-') ||
      !take_number(iso, 2, time.tm_mday))
    return std::nullopt;
  if (time.tm_year < 1 || time.tm_mon < 1 || time.tm_mon > 12 || time.tm_mday < 1 || time.tm_mday > 31) return std::nullopt;
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  if (!iso.empty()) {
    if (!take(iso, 'T') && !take(iso, ' ')) return std::nullopt;
    if (!take_number(iso, 2, time.tm_hour) || !take(iso, ':') || !take_number(iso, 2, time.tm_min)) return std::nullopt;
    if (take(iso, ':') && !take_number(iso, 2, time.tm_sec)) return std::nullopt;
    if (time.tm_hour > 23 || time.tm_min > 59 || time.tm_sec > 60) return std::nullopt;
    if (take(iso, '.')) moment.microseconds = microseconds(iso);
  }
  complete(time);
  return moment;
}

Template::Template(std::string_view source) : program_(parse(source)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

std::string Template::render(const Dict& variables, const Clock& clock, const Limits& limits) const {
  Runtime runtime(limits, clock);
  return Interpreter(runtime, *program_, variables).run();
}

}  // namespace kvik::text::jinja
