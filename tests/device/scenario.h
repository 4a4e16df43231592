#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/device/kv_layout.h"
#include "kernels/device/units.h"

// Random steps that can be run on any device: the same seed gives the same steps and the same memory.
namespace kvik::testing_support {

// How the steps of a scenario are run; none of it may change a bit.
struct HowToRun {
  bool recorded = false;
  int replays = 1;
};

// Memory of one device with known contents, and the steps over it.
class Scenario {
 public:
  Scenario(device::Device& device, uint32_t seed) : device_(device), random_(seed) {}
  ~Scenario();
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  // Numbers of different magnitudes; now and then a zero.
  std::vector<float> floats(int64_t n, float scale = 1.0f);
  int integer(int least, int most);
  device::Address put(std::span<const std::byte> bytes);
  template <class T>
  device::Address put(const std::vector<T>& values) {
    return put(std::as_bytes(std::span(values)));
  }
  device::Address room(int64_t n_bytes);           // all bits set
  device::View values(int64_t n_rows, int64_t n);  // f32, random
  device::View values_of(int64_t n_rows, int64_t n, const std::vector<float>& numbers);
  device::View output(int64_t n_rows, int64_t row_bytes);  // whose contents are the result
  device::View scratch(int64_t n_rows, int64_t row_bytes);

  // n rows at random positions of sequences of their own, or one sequence's rows from a position on.
  device::Rows rows(int n, int most, std::span<const int> positions = {});
  const std::vector<device::Row>& row_list() const { return rows_; }
  device::Selection selection(int n_rows);

  device::Weights weights(device::WeightFormat format, int64_t k, int64_t n);

  void add(const device::Step& step) { steps_.push_back(step); }
  // The attention of n rows and the merge of its spans, which is an output.
  void add_attention(device::Attend attend, int n, int spans_a_part, int most_keys);
  const std::vector<device::Step>& steps() const { return steps_; }
  // What the outputs hold afterwards.
  std::vector<uint32_t> run(const HowToRun& how);

 private:
  device::Device& device_;
  std::mt19937 random_;
  std::vector<device::Address> memory_;
  std::vector<device::Row> rows_;
  std::vector<device::Step> steps_;
  struct Output {
    device::Address address;
    int64_t n_bytes;
  };
  std::vector<Output> outputs_;
};

// A named way to build a scenario.
struct ScenarioCase {
  std::string name;
  std::function<void(Scenario&)> build;
};
std::vector<ScenarioCase> row_step_cases();
std::vector<ScenarioCase> matrix_cases();
std::vector<ScenarioCase> attention_cases();
std::vector<ScenarioCase> decode_cases();
std::vector<ScenarioCase> chain_cases();
std::vector<ScenarioCase> fused_cases();

std::vector<uint32_t> run_on(device::Device& device, const ScenarioCase& scenario, const HowToRun& how = {});
// Of the words that differ, where all NaNs are alike: how many, and the first.
std::string difference(std::span<const uint32_t> a, std::span<const uint32_t> b);

}  // namespace kvik::testing_support
