// Steps of a decoder's shape on a GPU, without a model: random weights; rows of sequences at one context length, or a prompt of one
// sequence in calls of 2048 rows.
//   bench-device [--format f16|q8|q4] [--rows N | --prompt N] [--context N] [--layers N] [--units N] [--overlaps 0] [--fuses 0] [--wide 0]
//   [--quick 0] [--warps 0|1|2: a warp of attention takes a span never, always, always with a deep ring]
//   --only attention|rows|products|choice: those steps alone
//   --profile 1: the time of each kernel too, without overlap
//   default: every format at 1, 8, 32, 64 and 256 rows
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/device/kv_layout.h"
#include "kernels/device/order.h"
#include "kernels/device/units.h"

namespace {

using namespace kvik;
using namespace kvik::device;

struct Shape {  // 1.5B parameters
  int n_layers = 28, width = 1536, n_heads = 12, n_kv_heads = 2, head_dim = 128, inner = 8960, vocabulary = 151936;
};

class DecodeBench {
 public:
  DecodeBench(Device& device, WeightFormat format, const Shape& shape) : device_(device), format_(format), shape_(shape) {
    const int qkv = (shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim;
    for (int i = 0; i < shape.n_layers; ++i) {
      layers_.push_back({weights(shape.width, qkv), weights(shape.width, shape.width), weights(shape.width, 2 * shape.inner),
                         weights(shape.inner, shape.width)});
    }
    head_ = weights(shape.width, shape.vocabulary);
    gain_ = {put(std::vector<float>(static_cast<size_t>(shape.width), 1.0f)), 0};
    table_ = {put(std::vector<float>(static_cast<size_t>(shape.head_dim / 2) * 40960, 0.7f)), shape.head_dim / 2 * 4, Address::kNone, true};
  }
  ~DecodeBench() {
    device_.wait();
    for (const Address address : memory_) device_.release(address);
  }
  DecodeBench(const DecodeBench&) = delete;
  DecodeBench& operator=(const DecodeBench&) = delete;

  size_t weight_bytes() const { return weight_bytes_; }

  // From now on run() prints where the time goes.
  void set_profile() { profiles_ = true; }

  // Median milliseconds of a step of `n_rows` sequences.
  double run(int n_rows, int context, const std::string& only) {
    return run({.n_rows = n_rows, .first_position = context - 1, .is_prompt = false}, only);
  }

  // Milliseconds of a prompt: of its calls in turn.
  double run_prompt(int n_tokens, const std::string& only) {
    constexpr int kMostRows = 2048;
    double ms = 0;
    for (int first = 0; first < n_tokens; first += kMostRows)
      ms += run({.n_rows = std::min(kMostRows, n_tokens - first), .first_position = first, .is_prompt = true}, only);
    return ms;
  }

 private:
  struct Call {
    int n_rows, first_position;
    bool is_prompt;  // of one sequence; only the last row wants logits
    int n_keys() const { return first_position + (is_prompt ? n_rows : 1); }
  };

  double run(const Call& call, const std::string& only) {
    const size_t first = memory_.size();
    std::vector<Step> steps = steps_for(call);
    if (!only.empty()) std::erase_if(steps, [&](const Step& step) { return kind_of(step) != only; });
    const std::unique_ptr<Recording> recording = device_.record(steps);
    const auto replay = [&](int n) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < n; ++i) device_.replay(*recording);
      device_.wait();
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / n;
    };
    replay(3);
    constexpr double kBatchMs = 40;
    const int n_replays = std::clamp(static_cast<int>(kBatchMs / replay(1)), 1, 20);
    std::vector<double> times;
    for (int batch = 0; batch < 7; ++batch) times.push_back(replay(n_replays));
    std::sort(times.begin(), times.end());
    if (profiles_) profile(steps);
    for (size_t i = first; i < memory_.size(); ++i) device_.release(memory_[i]);
    memory_.resize(first);
    return times[times.size() / 2];
  }

  // The mean microseconds of each launch, one after the other. Equal launches of layers are one line.
  void profile(const std::vector<Step>& steps) {
    constexpr int kReplays = 5;
    std::vector<std::pair<std::string, double>> launches;
    size_t n = 0;
    device_.set_timer([&](std::string_view name, double seconds, double) {
      if (n == launches.size()) launches.emplace_back(name, 0.0);
      launches[n++].second += seconds * 1e6 / kReplays;
    });
    const std::unique_ptr<Recording> recording = device_.record(steps);
    for (int i = 0; i < kReplays; ++i, n = 0) device_.replay(*recording);
    device_.set_timer(nullptr);
    const size_t n_layers = static_cast<size_t>(shape_.n_layers), per_layer = launches.size() / n_layers;
    for (size_t i = 0; i < launches.size(); ++i) {
      const bool in_layers = i >= 1 && i <= per_layer && n_layers > 2;
      if (!in_layers && i >= 1 && i < 1 + per_layer * n_layers && n_layers > 2) continue;
      double sum = 0;
      for (size_t layer = 0; layer < (in_layers ? n_layers : 1); ++layer) sum += launches[i + layer * per_layer].second;
      fmt::print("    {:20} {:7.2f} us\n", launches[i].first, sum / (in_layers ? static_cast<double>(n_layers) : 1.0));
    }
  }

  static std::string kind_of(const Step& step) {
    return std::visit(
        []<class T>(const T&) -> std::string {
          if constexpr (std::is_same_v<T, Matrix>) return "products";
          constexpr bool kAttends = std::is_same_v<T, Rotary> || std::is_same_v<T, Append> || std::is_same_v<T, Attend>;
          if constexpr (kAttends || std::is_same_v<T, MergeSpans> || std::is_same_v<T, Begin>) return "attention";
          return std::is_same_v<T, Choose> ? "choice" : "rows";
        },
        step);
  }

  struct Layer {
    Weights qkv, out, gate_up, down;
  };

  Address room(size_t n_bytes) {
    memory_.push_back(device_.allocate(n_bytes, "a benchmark"));
    return memory_.back();
  }
  template <class T>
  Address put(const std::vector<T>& values) {
    const Address address = room(values.size() * sizeof(T));
    device_.write(address, std::as_bytes(std::span(values)));
    return address;
  }
  View view(int n_rows, int64_t row_bytes) {
    const int64_t stride = (row_bytes + 63) / 64 * 64;
    return {room(static_cast<size_t>(n_rows * stride)), stride};
  }

  // Bytes that are small numbers in every format: f16 below 2, codes of any value with small scales.
  Weights weights(int k, int n) {
    const UnitLayout layout = unit_layout(format_, k, n);
    std::vector<uint32_t> words(static_cast<size_t>(layout.size_bytes) / 4);
    if (pattern_.empty()) {
      for (size_t i = 0; i < size_t{1} << 20; ++i) pattern_.push_back((random_() & 0x83ff83ffu) | 0x24002400u);  // about 0.016 … 0.03
    }
    for (size_t i = 0; i < words.size(); i += pattern_.size())
      std::copy_n(pattern_.begin(), std::min(pattern_.size(), words.size() - i), words.begin() + static_cast<int64_t>(i));
    weight_bytes_ += static_cast<size_t>(layout.size_bytes);
    return {put(words), Address::kNone, format_, k, n};
  }

  // In one block of memory, as kv::PageStore has them.
  std::vector<Address> put_pages(int n, size_t page_bytes) {
    const std::vector<uint16_t> page(page_bytes / 2, 0x2c00);
    const Address memory = memory_.emplace_back(device_.allocate(page_bytes * static_cast<size_t>(n), "pages"));
    std::vector<Address> pages;
    for (int i = 0; i < n; ++i) {
      pages.push_back(Address{static_cast<uint64_t>(memory) + static_cast<uint64_t>(i) * page_bytes});
      device_.write(pages.back(), std::as_bytes(std::span(page)));
    }
    return pages;
  }

  std::vector<Step> steps_for(const Call& call) {
    const Shape& s = shape_;
    constexpr int kSharingRows = 64;
    const int n_rows = call.n_rows, n_sequences = call.is_prompt ? 1 : n_rows, n_tail = call.is_prompt ? 1 : n_rows;
    std::vector<Row> row_list;
    std::vector<RowGroup> groups;
    const int n_pages = (call.n_keys() + kPagePositions - 1) / kPagePositions;
    const KvLayout layout = kv_layout(1, s.n_kv_heads, s.head_dim, s.head_dim);
    for (int i = 0; i < n_rows; ++i) {
      const int slot = call.is_prompt ? 0 : i, position = call.first_position + (call.is_prompt ? i : 0);
      row_list.push_back({.token = i, .position = position, .slot = slot, .source_slot = slot, .n_keys = call.n_keys()});
      if (!call.is_prompt || i % kSharingRows == 0) groups.push_back({i, 0});
      ++groups.back().n_rows;
    }
    const std::vector<Address> pages = put_pages(n_sequences * n_pages, static_cast<size_t>(layout.page_bytes * s.n_layers));
    const Rows rows{put(row_list), put(std::vector<int32_t>{n_rows}), n_rows, !call.is_prompt};
    const Rows tail{put(std::vector<Row>(row_list.end() - n_tail, row_list.end())), put(std::vector<int32_t>{n_tail}), n_tail, true};
    const RowGroups row_groups{put(groups), put(std::vector<int32_t>{static_cast<int32_t>(groups.size())}), n_rows,
                               call.is_prompt ? kSharingRows : 1};
    const PageTable table{put(pages), n_pages};
    std::vector<int32_t> heads, first_heads;
    for (int i = 0; i < s.n_heads; ++i) {
      if (i % (s.n_heads / s.n_kv_heads) == 0) first_heads.push_back(i);
      heads.push_back(i);
    }
    first_heads.push_back(s.n_heads);

    const int q_size = s.n_heads * s.head_dim, kv_size = s.n_kv_heads * s.head_dim, qkv_size = q_size + 2 * kv_size;
    const View hidden[] = {view(n_rows, s.width * 4), view(n_rows, s.width * 4)};
    const View normed = view(n_rows, s.width * 4), projected = view(n_rows, s.width * 4), qkv = view(n_rows, qkv_size * 4);
    const View rotated = view(n_rows, (q_size + kv_size) * 4), attended = view(n_rows, q_size * 4), inner = view(n_rows, 2 * s.inner * 4);
    const View gated = view(n_rows, s.inner * 4), half = view(n_rows, s.inner * 2), scale = view(n_rows, 4),
               logits = view(n_tail, s.vocabulary * 4);
    const std::vector<float> start(static_cast<size_t>(n_rows * hidden[0].stride / 4), 0.5f);
    device_.write(hidden[0].base, std::as_bytes(std::span(start)));
    const auto offset = [](View from, int64_t floats) {
      from.base = Address{static_cast<uint64_t>(from.base) + static_cast<uint64_t>(floats * 4)};
      return from;
    };
    AttendParts parts{.spans_a_part = n_rows > 64 ? kSpanGroupPositions / kSpanPositions : 1};
    parts.n_parts = (call.n_keys() + kSpanPositions * parts.spans_a_part - 1) / (kSpanPositions * parts.spans_a_part);
    parts.parts =
        room(static_cast<size_t>(n_rows) * static_cast<size_t>(s.n_heads * parts.n_parts) * static_cast<size_t>(2 + s.head_dim) * 4);

    std::vector<Step> steps = {Begin{.patches = put(std::vector<Patch>(1)), .n_patches = put(std::vector<int32_t>{0})}};
    Rows of_products = rows;
    const auto product = [&](const View& x, const Weights& w, const View& out) {
      steps.push_back(ToHalf{.rows = of_products, .x = x, .k = w.k, .padded_k = (w.k + 63) / 64 * 64, .out = half, .scale = scale});
      steps.push_back(Matrix{.rows = of_products, .x = half, .scale = scale, .weights = w, .out = out});
    };
    const auto add = [&](const View& to, const View& x) {
      steps.push_back(Elementwise{.rows = rows, .kind = Elementwise::Kind::kBinary, .in = {x, projected}, .n = s.width, .out = to});
    };
    const auto norm = [&](const View& x) {
      steps.push_back(Norm{.rows = of_products, .x = x, .weight = gain_, .out = normed, .n = s.width, .epsilon = 1e-6f});
    };
    int64_t page_offset = 0;
    for (const Layer& layer : layers_) {
      norm(hidden[0]);
      product(normed, layer.qkv, qkv);
      steps.push_back(Rotary{.rows = rows,
                             .x = qkv,
                             .cos = table_,
                             .sin = table_,
                             .out = rotated,
                             .n_heads = s.n_heads + s.n_kv_heads,
                             .head_dim = s.head_dim,
                             .n_pairs = s.head_dim / 2});
      steps.push_back(Append{.rows = rows,
                             .k = offset(rotated, q_size),
                             .v = offset(qkv, q_size + kv_size),
                             .pages = table,
                             .layout = layout,
                             .page_offset = page_offset});
      Attend attend{.rows = rows, .groups = row_groups, .q = rotated, .pages = table, .layout = layout, .page_offset = page_offset};
      attend.n_heads = s.n_heads, attend.most_heads = s.n_heads / s.n_kv_heads;
      attend.heads = put(heads), attend.first_heads = put(first_heads);
      attend.rule.scale = 0.088f;
      attend.parts = parts;
      steps.push_back(attend);
      steps.push_back(
          MergeSpans{.rows = rows, .n_heads = s.n_heads, .value_dim = s.head_dim, .rule = attend.rule, .parts = parts, .out = attended});
      product(attended, layer.out, projected);
      add(hidden[1], hidden[0]);
      norm(hidden[1]);
      product(normed, layer.gate_up, inner);
      steps.push_back(Elementwise{.rows = rows,
                                  .kind = Elementwise::Kind::kGate,
                                  .unary = Unary::kSilu,
                                  .in = {inner, offset(inner, s.inner)},
                                  .n = s.inner,
                                  .out = gated});
      product(gated, layer.down, projected);
      add(hidden[0], hidden[1]);
      page_offset += layout.page_bytes;
    }
    if (call.is_prompt) {
      of_products = tail;
      steps.push_back(GatherRows{tail, put(std::vector<int32_t>{n_rows - 1}), hidden[0], hidden[1], s.width * 4});
    }
    norm(hidden[call.is_prompt ? 1 : 0]);
    product(normed, head_, logits);
    steps.push_back(Choose{.rows = tail, .logits = logits, .n = s.vocabulary, .top = 1, .room = 16, .out = view(n_tail, 16 + 16 * 8)});
    return steps;
  }

  Device& device_;
  WeightFormat format_;
  Shape shape_;
  std::mt19937 random_{1};
  std::vector<uint32_t> pattern_;  // of weights
  std::vector<Address> memory_;
  std::vector<Layer> layers_;
  Weights head_;
  View gain_, table_;
  size_t weight_bytes_ = 0;
  bool profiles_ = false;
};

// Microseconds of one of many equal steps in a row: what a launch costs.
double launch_microseconds(Device& device, const Step& step) {
  constexpr int kSteps = 500;
  const std::vector<Step> steps(kSteps, step);
  const std::unique_ptr<Recording> recording = device.record(steps);
  device.replay(*recording);
  device.wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) device.replay(*recording);
  device.wait();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / 4 / kSteps;
}

void print_launches(Device& device) {
  const std::vector<Row> row(1);
  const std::vector<int32_t> one = {1}, none = {0};
  const std::vector<float> numbers(2048, 1.0f);
  std::vector<Address> memory;
  const auto put = [&](auto& values) {
    memory.push_back(device.allocate(values.size() * sizeof values[0], "a benchmark"));
    device.write(memory.back(), std::as_bytes(std::span(values)));
    return memory.back();
  };
  const Rows rows{put(row), put(one), 1};
  const View x{put(numbers), 0}, y{put(numbers), 0};
  fmt::print("launches, each alone: empty {:.2f} us, ", launch_microseconds(device, Begin{.patches = put(none), .n_patches = put(none)}));
  fmt::print("gather of 64 bytes {:.2f} us, ", launch_microseconds(device, GatherRows{rows, put(none), x, y, 64}));
  fmt::print("choice of 64 {:.2f} us\n", launch_microseconds(device, Choose{rows, x, 64, 1, 1, y}));
  for (const Address address : memory) device.release(address);
}

int number(int argc, char** argv, const char* name, int otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return std::stoi(argv[i + 1]);
  return otherwise;
}

cuda::SpanWarps span_warps(int how) {
  using enum cuda::SpanWarps;
  return how < 0 ? kAuto : how == 0 ? kNever : how == 1 ? kShort : kDeep;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string only, steps;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--format") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--only") == 0) steps = argv[i + 1];
  }
  Shape shape;
  shape.n_layers = number(argc, argv, "--layers", shape.n_layers);
  const int rows = number(argc, argv, "--rows", 0), prompt = number(argc, argv, "--prompt", 0),
            context = number(argc, argv, "--context", 512);
  const bool fuses = number(argc, argv, "--fuses", 1) != 0;
  const std::shared_ptr<Device> device = cuda::open_device({.n_units = number(argc, argv, "--units", 0),
                                                            .wide_products = number(argc, argv, "--wide", 1) != 0,
                                                            .fuses_products = fuses,
                                                            .fuses_attention = fuses,
                                                            .chains_rows = fuses,
                                                            .quick_kernels = number(argc, argv, "--quick", 1) != 0,
                                                            .overlaps = number(argc, argv, "--overlaps", 1) != 0,
                                                            .span_warps = span_warps(number(argc, argv, "--warps", -1))});
  fmt::print("{}, {} multiprocessors; {} layers, context {}\n", device->facts().name, device->facts().n_units, shape.n_layers, context);
  print_launches(*device);
  constexpr std::pair<const char*, WeightFormat> kFormats[] = {
      {"f16", WeightFormat::kF16}, {"q8", WeightFormat::kQ8}, {"q4", WeightFormat::kQ4}};
  for (const auto& [name, format] : kFormats) {
    if (!only.empty() && only != name) continue;
    DecodeBench bench(*device, format, shape);
    if (number(argc, argv, "--profile", 0) != 0) bench.set_profile();
    if (prompt > 0) {
      const double ms = bench.run_prompt(prompt, steps);
      fmt::print("{} prompt of {}: {:7.3f} ms, {:8.0f} tokens/s\n", name, prompt, ms, prompt * 1000.0 / ms);
      continue;
    }
    for (const int n : rows > 0 ? std::vector<int>{rows} : std::vector<int>{1, 8, 32, 64, 256}) {
      const double ms = bench.run(n, context, steps);
      fmt::print("{} {:3} rows: {:7.3f} ms, {:8.0f} tokens/s, weights at {:.2f} TB/s\n", name, n, ms, n * 1000.0 / ms,
                 static_cast<double>(bench.weight_bytes()) / ms / 1e9);
    }
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "bench-device: {}\n", error.what());
  return 1;
}
