#include <fmt/core.h>

#include "kv.h"

namespace kvik::bench {
namespace {

std::string cell(double value, std::string_view unit) {
  if (value < 0) return "-";
  if (unit == "bytes") return value < 1e6 ? fmt::format("{:.1f} KB", value / 1e3) : fmt::format("{:.1f} MB", value / 1e6);
  if (value < 1) return fmt::format("{:.{}f} us", value * 1e3, value < 0.1 ? 2 : 0);
  if (value < 1e4) return fmt::format("{:.{}f} ms", value, value < 100 ? 2 : 0);
  return fmt::format("{:.1f} s ", value / 1e3);
}

}  // namespace

void print_header(std::string_view title, std::span<const Context> contexts) {
  fmt::print("\n{:<40}", title);
  for (const Context& context : contexts) fmt::print("{:>12}", context.length);
  fmt::print("\n");
}

void print_row(std::string_view what, std::span<const double> values, std::string_view unit) {
  fmt::print("  {:<38}", what);
  for (const double value : values) fmt::print("{:>12}", cell(value, unit));
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace kvik::bench
