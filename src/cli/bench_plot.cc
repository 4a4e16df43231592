#include <algorithm>
#include <fmt/format.h>

#include "cli/bench_runs.h"

namespace kvik::cli {
namespace {

constexpr double kWidth = 760, kLeft = 210, kRight = 90, kBar = 22, kGap = 8, kTop = 56;
constexpr double kCurveHeight = 260;
constexpr const char* kCachedColor = "#2a6f97";
constexpr const char* kUncachedColor = "#c8553d";

std::string xml_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string text_at(double x, double y, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, xml_escaped(text));
}

bool is_curve(const Figure& figure) { return figure.more.contains("cached"); }

std::string bars(const std::vector<Figure>& figures, double top) {
  double most = 0;
  for (const Figure& figure : figures) most = std::max(most, figure.tokens_per_s);
  std::string svg;
  for (const Figure& figure : figures) {
    const double width = (kWidth - kLeft - kRight) * figure.tokens_per_s / most;
    svg += text_at(kLeft - 8, top + kBar * 0.7, figure.what, "text-anchor=\"end\"");
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", kLeft, top, width, kBar,
                       kCachedColor);
    svg += text_at(kLeft + width + 6, top + kBar * 0.7, fmt::format("{:.1f}", figure.tokens_per_s));
    top += kBar + kGap;
  }
  return svg;
}

// Both axes are linear, so that the growth without the cache is visible.
std::string curves(const std::vector<Figure>& figures, double top) {
  double most_tokens = 0, most_ms = 0;
  for (const Figure& figure : figures) {
    most_tokens = std::max(most_tokens, figure.more["tokens"].get<double>());
    most_ms = std::max(most_ms, figure.p50_ms);
  }
  const double width = kWidth - kLeft - kRight, bottom = top + kCurveHeight;
  const auto x_of = [&](const Figure& figure) { return kLeft + width * figure.more["tokens"].get<double>() / most_tokens; };
  const auto y_of = [&](double ms) { return bottom - kCurveHeight * ms / most_ms; };
  std::string svg = text_at(kLeft, top - 14, "milliseconds for so many tokens, with the cache and without");
  svg += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" stroke=\"#888\"/>\n", kLeft, top, bottom, kLeft + width);
  svg += text_at(kLeft - 8, top + 6, fmt::format("{:.0f} ms", most_ms), "text-anchor=\"end\"");
  for (const bool cached : {true, false}) {
    const char* color = cached ? kCachedColor : kUncachedColor;
    std::string points;
    const Figure* last = nullptr;
    for (const Figure& figure : figures) {
      if (figure.more["cached"].get<bool>() != cached) continue;
      points += fmt::format("{:.1f},{:.1f} ", x_of(figure), y_of(figure.p50_ms));
      if (cached) svg += text_at(x_of(figure), bottom + 18, fmt::format("{}", figure.more["tokens"].get<int>()), "text-anchor=\"middle\"");
      last = &figure;
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\"/>\n", points, color);
    if (last != nullptr)
      svg += text_at(x_of(*last) + 6, y_of(last->p50_ms) + 4, cached ? "cached" : "uncached", fmt::format("fill=\"{}\"", color).c_str());
  }
  return svg;
}

}  // namespace

std::string bench_plot(const std::string& title, const std::vector<Figure>& figures) {
  std::vector<Figure> rates, curve;
  for (const Figure& figure : figures) {
    if (is_curve(figure)) {
      curve.push_back(figure);
    } else if (figure.tokens_per_s > 0) {
      rates.push_back(figure);
    }
  }
  const double below_bars = kTop + static_cast<double>(rates.size()) * (kBar + kGap);
  const double height = below_bars + (curve.empty() ? 12 : kCurveHeight + 84);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  svg += text_at(16, 26, title, "font-size=\"16\" font-weight=\"bold\"");
  svg += text_at(kLeft, 46, "tokens per second", "fill=\"#555\"");
  svg += bars(rates, kTop);
  if (!curve.empty()) svg += curves(curve, below_bars + 44);
  return svg + "</svg>\n";
}

}  // namespace kvik::cli
