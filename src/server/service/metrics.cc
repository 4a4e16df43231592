#include "server/service/metrics.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::server {
namespace {

// Upper limits in seconds: from a mask and a token of a small model to a long prompt of a large one.
constexpr double kBuckets[] = {0.000001, 0.00001, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

std::string written(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += text.empty() ? "" : ",";
    text += name;
    text += "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') text += '\\';
      text += c == '\n' ? "\\n" : std::string(1, c);
    }
    text += '"';
  }
  return text;
}

std::string with(const std::string& labels, const std::string& more = {}) {
  const std::string all = labels + (labels.empty() || more.empty() ? "" : ",") + more;
  return all.empty() ? "" : "{" + all + "}";
}

}  // namespace

MetricTable::Family& MetricTable::family(std::string_view name, Kind kind) {
  const auto found = families_.find(name);
  Family& family = found != families_.end() ? found->second : families_[std::string(name)];
  family.kind = kind;
  return family;
}

void MetricTable::describe(std::string_view name, std::string_view help) {
  const std::lock_guard lock(mutex_);
  families_[std::string(name)].help = help;
}

void MetricTable::add(std::string_view name, const Labels& labels, double value) {
  const std::lock_guard lock(mutex_);
  family(name, Kind::kCounter).values[written(labels)] += value;
}

void MetricTable::set(std::string_view name, const Labels& labels, double value) {
  const std::lock_guard lock(mutex_);
  family(name, Kind::kGauge).values[written(labels)] = value;
}

void MetricTable::set_counter(std::string_view name, const Labels& labels, double value) {
  const std::lock_guard lock(mutex_);
  family(name, Kind::kCounter).values[written(labels)] = value;
}

void MetricTable::observe(std::string_view name, const Labels& labels, double seconds) {
  const std::lock_guard lock(mutex_);
  Histogram& histogram = family(name, Kind::kHistogram).histograms[written(labels)];
  histogram.counts.resize(std::size(kBuckets));
  const auto bucket = std::ranges::lower_bound(kBuckets, seconds);
  if (bucket != std::end(kBuckets)) ++histogram.counts[static_cast<size_t>(bucket - std::begin(kBuckets))];
  ++histogram.n;
  histogram.sum += seconds;
}

void MetricTable::declare_histogram(std::string_view name, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  family(name, Kind::kHistogram).histograms[written(labels)].counts.resize(std::size(kBuckets));
}

double MetricTable::value(std::string_view name, const Labels& labels) const {
  const std::lock_guard lock(mutex_);
  const auto found = families_.find(name);
  if (found == families_.end()) return 0;
  const std::string key = written(labels);
  if (const auto value = found->second.values.find(key); value != found->second.values.end()) return value->second;
  const auto histogram = found->second.histograms.find(key);
  return histogram == found->second.histograms.end() ? 0 : static_cast<double>(histogram->second.n);
}

std::string MetricTable::text() const {
  constexpr const char* kKinds[] = {"counter", "gauge", "histogram"};
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, family] : families_) {
    if (family.values.empty() && family.histograms.empty()) continue;
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name, kKinds[static_cast<int>(family.kind)]);
    for (const auto& [labels, value] : family.values) text += fmt::format("{}{} {}\n", name, with(labels), value);
    for (const auto& [labels, histogram] : family.histograms) {
      uint64_t below = 0;
      for (size_t i = 0; i < std::size(kBuckets); ++i)
        text += fmt::format("{}_bucket{} {}\n", name, with(labels, fmt::format("le=\"{}\"", kBuckets[i])), below += histogram.counts[i]);
      text += fmt::format("{}_bucket{} {}\n", name, with(labels, "le=\"+Inf\""), histogram.n);
      text += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, with(labels), histogram.sum, name, with(labels), histogram.n);
    }
  }
  return text;
}

}  // namespace kvik::server
