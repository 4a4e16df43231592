#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik::server {

using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

// The metrics of /metrics, in the text format of Prometheus. Any thread may call.
class MetricTable {
 public:
  void add(std::string_view name, const Labels& labels, double value = 1);      // a counter
  void set(std::string_view name, const Labels& labels, double value);          // a gauge
  void observe(std::string_view name, const Labels& labels, double seconds);    // a histogram of times
  void declare_histogram(std::string_view name, const Labels& labels);          // shown before the first observation
  void set_counter(std::string_view name, const Labels& labels, double value);  // that is counted elsewhere
  void describe(std::string_view name, std::string_view help);

  double value(std::string_view name, const Labels& labels) const;  // 0 if there is none; of a histogram, the number of observations
  std::string text() const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct Histogram {
    std::vector<uint64_t> counts;  // per bucket
    uint64_t n = 0;
    double sum = 0;
  };
  struct Family {
    Kind kind = Kind::kCounter;
    std::string help;
    std::map<std::string, double, std::less<>> values;         // by labels, as written
    std::map<std::string, Histogram, std::less<>> histograms;  // by labels
  };
  Family& family(std::string_view name, Kind kind);

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace kvik::server
