#include "text/template/template.h"

#include <chrono>
#include <cstdio>

#include "text/template/interpreter.h"

namespace kvik::text::jinja {
namespace {

// The day of the week and of the year follow from the date.
void complete(std::tm& time) {
  constexpr int kDaysBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const int year = time.tm_year + 1900;
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  time.tm_yday = kDaysBefore[time.tm_mon] + time.tm_mday - 1 + (is_leap && time.tm_mon > 1 ? 1 : 0);
  const int days = (year - 1) * 365 + (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 + time.tm_yday;
  time.tm_wday = (days + 1) % 7;  // the first day of year 1 was a Monday
  time.tm_isdst = -1;
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
  const std::string text(iso);
  Moment moment;
  std::tm& time = moment.local;
  int year = 0, month = 0, n_read = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &time.tm_mday, &n_read) != 3) return std::nullopt;
  if (year < 1 || month < 1 || month > 12 || time.tm_mday < 1 || time.tm_mday > 31) return std::nullopt;
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  std::string rest = text.substr(static_cast<size_t>(n_read));
  if (!rest.empty()) {
    int n_time = 0, n_seconds = 0;
    if (rest[0] != 'T' && rest[0] != ' ') return std::nullopt;
    if (std::sscanf(rest.c_str() + 1, "%2d:%2d%n", &time.tm_hour, &time.tm_min, &n_time) != 2) return std::nullopt;
    rest = rest.substr(static_cast<size_t>(n_time) + 1);
    if (std::sscanf(rest.c_str(), ":%2d%n", &time.tm_sec, &n_seconds) == 1) rest = rest.substr(static_cast<size_t>(n_seconds));
    if (!rest.empty() && rest[0] == '.')
      for (size_t i = 1, unit = 100'000; i < rest.size() && rest[i] >= '0' && rest[i] <= '9'; ++i, unit /= 10)
        moment.microseconds += (rest[i] - '0') * static_cast<int>(unit);
    if (time.tm_hour > 23 || time.tm_min > 59 || time.tm_sec > 60 || time.tm_hour < 0 || time.tm_min < 0 || time.tm_sec < 0)
      return std::nullopt;
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
