#include <algorithm>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <set>

#include "device/built_file.h"
#include "kernels/cuda/lower.h"
#include "kernels/device/order.h"

namespace kvik::cuda {
namespace {

using namespace device;

Target target() {
  Target made{.n_units = 132, .shared_bytes = 225 << 10, .n_tickets = 1 << 16, .tickets = Address{64}, .largest = Address{128}};
  made.parts = [](size_t) { return Address{4096}; };
  made.map_rows = [](const View&, int64_t, int64_t, int) { return TensorMap{}; };
  return made;
}

std::vector<std::string> kernels_of(const std::vector<Action>& actions) {
  std::vector<std::string> names;
  for (const Action& action : actions) {
    const auto* launch = std::get_if<Launch>(&action);
    names.push_back(launch != nullptr ? launch->kernel : "copy");
  }
  return names;
}

Rows rows(int most, uint64_t at = 256) { return {Address{at}, Address{at + 8}, most}; }

TEST(Lower, ConsecutiveRowStepsShareALaunch) {
  const std::vector<Step> steps = {Norm{.rows = rows(1)},
                                   ToHalf{.rows = rows(1)},
                                   Matrix{.rows = rows(1), .weights = {.k = 64, .n = 64}},
                                   Elementwise{.rows = rows(1)},
                                   CopyBytes{},
                                   Elementwise{.rows = rows(1)}};
  EXPECT_THAT(kernels_of(lower(steps, target())),
              testing::ElementsAre("rows_program", "stream_f16", "rows_program", "copy", "rows_program"));
  Target apart = target();
  apart.merges_rows = false;
  EXPECT_EQ(lower(steps, apart).size(), 6u);
}

TEST(Lower, RowsOfAnotherListAndGatheredRowsStartALaunch) {
  const std::vector<Step> steps = {Norm{.rows = rows(4)}, Norm{.rows = rows(4, 512)}, GatherRows{.rows = rows(4, 512)},
                                   Norm{.rows = rows(4, 512)}};
  EXPECT_EQ(lower(steps, target()).size(), 3u);
}

TEST(Lower, ALongRunOfRowStepsIsCut) {
  const std::vector<Step> steps(40, Norm{.rows = rows(4)});
  EXPECT_EQ(lower(steps, target()).size(), 3u);
}

TEST(Lower, ProductsOfFewTilesSplitK) {
  const auto launch_of = [](int rows_of_call, int k, int n) {
    const std::vector<Step> steps = {Matrix{.rows = rows(rows_of_call), .weights = {.k = k, .n = n}}};
    Target without_wgmma = target();
    without_wgmma.wide_products = false;
    return std::get<Launch>(lower(steps, without_wgmma).front());
  };
  EXPECT_EQ(launch_of(1, 1536, 151936).kernel, "stream_f16");
  EXPECT_EQ(launch_of(8, 1536, 151936).grid[0], 132u);
  EXPECT_EQ(launch_of(9, 1536, 151936).grid[1], 1u);
  EXPECT_EQ(launch_of(9, 1536, 1536).grid[1], 6u);
  EXPECT_GT(launch_of(64, 8960, 1536).grid[1], 1u);
  EXPECT_EQ(launch_of(64, 1536, 17920).kernel, "matrix_f16_8");
  EXPECT_EQ(launch_of(65, 1536, 17920).grid[2], 2u);
}

WideLaunch wide_launch_of(int rows_of_call, int k, int n, std::string* kernel = nullptr) {
  const std::vector<Step> steps = {Matrix{.rows = rows(rows_of_call), .weights = {.k = k, .n = n}}};
  const auto launch = std::get<Launch>(lower(steps, target()).front());
  EXPECT_THAT(launch.kernel, testing::StartsWith("wide_"));
  EXPECT_LE(launch.shared_bytes, target().shared_bytes);
  EXPECT_LE(launch.grid[0], 132u);
  if (kernel != nullptr) *kernel = launch.kernel;
  WideLaunch argument;
  std::memcpy(&argument, launch.argument.data(), sizeof argument);
  return argument;
}

TEST(Lower, ProductsOfManyRowsFillTheMultiprocessors) {
  std::string kernel;
  EXPECT_EQ(wide_launch_of(9, 1536, 151936, &kernel).matrix.n_chunks, 1);
  EXPECT_EQ(kernel, "wide_f16_16");
  for (const int n_rows : {9, 33, 65, 256, 513, 2048}) {
    for (const int k : {32, 1536, 8960, 30000}) {
      for (const int n : {8, 1536, 2048, 17920}) {
        const WideLaunch launch = wide_launch_of(n_rows, k, n);
        EXPECT_GE(launch.n_tile_blocks * launch.n_tiles * 16, n);
        EXPECT_GE(launch.n_stages, 2);
        EXPECT_LE(launch.n_stages, kMostWideStages);
        const int n_slices = (k + kSliceColumns - 1) / kSliceColumns;
        EXPECT_GE(launch.matrix.n_chunks * launch.matrix.slices_per_chunk, n_slices);
        EXPECT_LT((launch.matrix.n_chunks - 1) * launch.matrix.slices_per_chunk, n_slices);
        // Only whole groups can be added up before the others are known.
        if (launch.matrix.n_chunks > 1 && !launch.matrix.keeps_slices) {
          EXPECT_EQ(launch.matrix.slices_per_chunk % (kGroupColumns / kSliceColumns), 0);
        }
      }
    }
  }
  EXPECT_GT(wide_launch_of(64, 8960, 1536).matrix.n_chunks, 1);
}

TEST(Lower, RowsThatFollowOneAnotherShareTheReadingOfKeys) {
  Attend attend{.rows = rows(64)};
  attend.groups.most = 64, attend.groups.most_rows = 64;
  attend.parts.n_parts = 1, attend.most_heads = 6;
  attend.layout = {.n_heads = 2, .key_dim = 128, .value_dim = 128, .planes = 1};
  const auto kernel = [&] { return kernels_of(lower(std::vector<Step>{attend}, target())).front(); };
  EXPECT_EQ(kernel(), "prompt_128");
  attend.layout.key_dim = attend.layout.value_dim = 40;
  EXPECT_EQ(kernel(), "prompt_64");
  attend.rule.soft_cap = 30.0f;
  EXPECT_EQ(kernel(), "attend_1");
  attend.rule.soft_cap = 0.0f, attend.layout.planes = 2;
  EXPECT_EQ(kernel(), "attend_2");
  attend.layout.planes = 1, attend.groups.most_rows = 1;
  EXPECT_EQ(kernel(), "attend_1");
}

// Steps of a decoder layer over memory of their own, as the native backend schedules them.
class LayerSteps {
 public:
  explicit LayerSteps(int n_rows) : rows_(rows(n_rows)), n_rows_(n_rows) {}

  View view(int64_t n_bytes) {
    const View made{Address{next_}, (n_bytes + 63) / 64 * 64};
    next_ += static_cast<uint64_t>(made.stride * n_rows_);
    return made;
  }
  View norm(const View& x, int64_t n) {
    const View out = view(n * 4);
    steps.push_back(Norm{.rows = rows_, .x = x, .weight = {Address{1 << 20}}, .out = out, .n = n, .epsilon = 1e-6f});
    return out;
  }
  View product(const View& x, int32_t k, int32_t n) {
    const ToHalf half{.rows = rows_, .x = x, .k = k, .padded_k = k, .out = view(k * 2), .scale = view(4)};
    steps.push_back(half);
    const View out = view(n * 4);
    steps.push_back(
        Matrix{.rows = rows_, .x = half.out, .scale = half.scale, .weights = {.units = Address{1 << 21}, .k = k, .n = n}, .out = out});
    return out;
  }
  View elementwise(Elementwise step, const View& out) {
    step.rows = rows_;
    step.out = out;
    steps.push_back(step);
    return out;
  }
  View add(const View& a, const View& b, int64_t n) {
    return elementwise({.kind = Elementwise::Kind::kBinary, .in = {a, b}, .n = n}, view(n * 4));
  }
  View gate(const View& both, int64_t n) {
    return elementwise({.kind = Elementwise::Kind::kGate, .unary = Unary::kSilu, .in = {both, behind(both, n)}, .n = n}, view(n * 4));
  }
  static View behind(View view, int64_t n_floats) {
    view.base = Address{static_cast<uint64_t>(view.base) + static_cast<uint64_t>(n_floats) * 4};
    return view;
  }
  std::vector<Step> steps;

 private:
  Rows rows_;
  int n_rows_;
  uint64_t next_ = 1 << 24;
};

std::vector<StreamLaunch> streams_of(const std::vector<Action>& actions) {
  std::vector<StreamLaunch> launches;
  for (const Action& action : actions) {
    const auto* launch = std::get_if<Launch>(&action);
    if (launch == nullptr || !launch->kernel.starts_with("stream")) continue;
    std::memcpy(&launches.emplace_back(), launch->argument.data(), sizeof(StreamLaunch));
  }
  return launches;
}

TEST(Lower, AProductTakesNormConversionAndWhatFollows) {
  LayerSteps layer(1);
  const View hidden = layer.view(1536 * 4), attended = layer.view(1536 * 4);
  layer.product(layer.norm(hidden, 1536), 1536, 2048);
  const View sum = layer.add(hidden, layer.product(attended, 1536, 1536), 1536);
  const View gated = layer.gate(layer.product(layer.norm(sum, 1536), 1536, 17920), 8960);
  layer.add(layer.product(gated, 8960, 1536), sum, 1536);
  EXPECT_THAT(kernels_of(lower(layer.steps, target())),
              testing::ElementsAre("quick_f16_normed_1", "quick_f16_converted_1", "quick_f16_gated_1", "quick_f16_split_1"));
  LayerSteps tiny_epsilon(1);
  const View row = tiny_epsilon.norm(tiny_epsilon.view(1536 * 4), 1536);
  std::get<Norm>(tiny_epsilon.steps.back()).epsilon = 1e-13f;
  tiny_epsilon.product(row, 1536, 2048);
  EXPECT_THAT(kernels_of(lower(tiny_epsilon.steps, target())), testing::ElementsAre("stream_f16")) << "its root has no slow path";
  Target general = target();
  general.quick_kernels = false;
  const std::vector<Action> actions = lower(layer.steps, general);
  EXPECT_THAT(kernels_of(actions), testing::ElementsAre("stream_f16", "stream_f16", "stream_f16", "stream_f16"));
  const std::vector<StreamLaunch> launches = streams_of(actions);
  EXPECT_EQ(launches[0].input, StreamInput::kNormed);
  EXPECT_FALSE(launches[0].has_after);
  EXPECT_EQ(launches[1].input, StreamInput::kFloats);
  EXPECT_EQ(launches[1].own_operand, 1);
  EXPECT_TRUE(launches[2].pairs);
  EXPECT_EQ(launches[2].n_tiles, 560);
  EXPECT_EQ(launches[3].own_operand, 0);
  EXPECT_NE(launches[2].largest_out, Address::kNone);
  EXPECT_EQ(launches[3].largest_in, launches[2].largest_out);
  EXPECT_EQ(launches[3].n_largest, 132);
  EXPECT_EQ(launches[1].largest_in, Address::kNone);  // nobody has found it

  Target apart = target();
  apart.fuses_products = apart.chains_rows = false;
  EXPECT_THAT(kernels_of(lower(layer.steps, apart)),
              testing::ElementsAre("rows_program", "stream_f16", "rows_program", "stream_f16", "rows_program", "stream_f16", "rows_program",
                                   "stream_f16", "rows_program"));
}

// Of a product that is dealt by groups of slices: those that a block of quick.cuh takes.
std::vector<std::pair<int, int>> items_of(const QuickLaunch& launch, int block) {
  std::vector<std::pair<int, int>> items;
  const int larger = launch.n_larger_blocks, first = block * launch.items_per_block + std::min(block, larger);
  for (int i = first; i < first + launch.items_per_block + (block < larger ? 1 : 0); ++i)
    items.emplace_back(i / launch.n_tiles, i % launch.n_tiles);
  const auto add_rest = [&](int before, int place, int each, int n_more) {
    const int tile = before + place * each + std::min(place, n_more);
    for (int i = 0; i < each + (place < n_more ? 1 : 0); ++i) items.emplace_back(-1, tile + i);
  };
  if (block < larger)
    add_rest(0, block, launch.rest_of_larger, launch.n_more_of_larger);
  else
    add_rest(larger * launch.rest_of_larger + launch.n_more_of_larger, block - larger, launch.rest_of_others, launch.n_more_of_others);
  return items;
}

TEST(Lower, EveryGroupOfSlicesOfASplitProductHasOneBlock) {
  for (const int n_units : {1, 7, 96, 132})
    for (const int inner : {2304, 4096, 4352, 8960, 18944})
      for (const int width : {40, 512, 1536, 3584}) {
        LayerSteps layer(1);
        const View hidden = layer.view(width * 4), sum = layer.view(width * 4);
        const View gated = layer.gate(layer.product(layer.norm(hidden, 512), 512, 2 * inner), inner);
        layer.add(layer.product(gated, inner, width), sum, width);
        Target few = target();
        few.n_units = n_units;
        const std::vector<Action> actions = lower(layer.steps, few);
        const auto& launch = std::get<Launch>(actions.back());
        if (!launch.kernel.starts_with("quick_f16_split")) continue;
        QuickLaunch quick;
        std::memcpy(&quick, launch.argument.data(), sizeof quick);
        std::set<std::pair<int, int>> all;
        for (int block = 0; block < static_cast<int>(launch.grid[0]); ++block)
          for (const auto& item : items_of(quick, block)) EXPECT_TRUE(all.insert(item).second) << item.first << ", " << item.second;
        EXPECT_EQ(all.size(), static_cast<size_t>(quick.n_tiles * ((quick.n_slices + 7) / 8)))
            << inner << " x " << width << " on " << n_units;
      }
}

TEST(Lower, AProductOfNineRowsTakesNothing) {
  LayerSteps layer(9);
  layer.product(layer.norm(layer.view(1536 * 4), 1536), 1536, 2048);
  EXPECT_THAT(kernels_of(lower(layer.steps, target())), testing::ElementsAre("chain_1", "wide_f16_16"));
}

// Blocks are not at the same step at the same time.
TEST(Lower, MemoryThatOtherBlocksReadOrWriteKeepsStepsApart) {
  const auto n_launches = [](auto change) {
    LayerSteps layer(2);
    const View hidden = layer.view(512 * 4);
    layer.gate(layer.product(layer.norm(hidden, 512), 512, 1024), 512);
    change(std::get<Norm>(layer.steps[0]), std::get<ToHalf>(layer.steps[1]), std::get<Matrix>(layer.steps[2]),
           std::get<Elementwise>(layer.steps[3]));
    return lower(layer.steps, target()).size();
  };
  EXPECT_EQ(n_launches([](Norm&, ToHalf&, Matrix&, Elementwise&) {}), 1u);
  EXPECT_EQ(n_launches([](Norm& norm, ToHalf& half, Matrix&, Elementwise&) { norm.out = half.x = norm.x; }), 2u);
  EXPECT_EQ(n_launches([](Norm& norm, ToHalf&, Matrix&, Elementwise& gate) { gate.out = norm.x; }), 2u);
  EXPECT_EQ(n_launches([](Norm& norm, ToHalf&, Matrix&, Elementwise& gate) { gate.out = LayerSteps::behind(norm.out, 100); }), 2u);
  EXPECT_EQ(n_launches([](Norm&, ToHalf&, Matrix& matrix, Elementwise& gate) { gate.out = matrix.out; }), 2u);
  EXPECT_EQ(n_launches([](Norm&, ToHalf&, Matrix& matrix, Elementwise& gate) { matrix.out.stride += 64, gate.groups = 1; }), 2u);
  EXPECT_EQ(n_launches([](Norm&, ToHalf&, Matrix&, Elementwise& gate) { gate.spread[1] = Spread::kOne; }), 2u);
  EXPECT_EQ(n_launches([](Norm& norm, ToHalf&, Matrix&, Elementwise&) { norm.groups = 2; }), 2u);
  EXPECT_EQ(n_launches([](Norm&, ToHalf&, Matrix& matrix, Elementwise&) { matrix.selection.base = Address{512}; }), 3u);
}

// A name that no file has would be found out only on a GPU.
TEST(Lower, StepsBecomeKernelsThatExist) {
#ifdef KVIK_CUDA_RESOURCE_LIST
  std::ifstream file(testing_support::built_file(KVIK_CUDA_RESOURCE_LIST));
  std::set<std::string> listed;
  for (std::string line; std::getline(file, line);) listed.insert(line.substr(0, line.find(' ')));
  std::vector<Step> steps = {Begin{}, Norm{.rows = rows(1)}, Choose{.rows = rows(1)}};
  for (int format = 0; format < 6; ++format)
    for (const int n : {1, 8, 9, 17, 33, 64, 100, 2048})
      steps.push_back(Matrix{.rows = rows(n), .weights = {.format = static_cast<WeightFormat>(format), .k = 512, .n = 512}});
  for (const int planes : {1, 2}) {
    Attend attend{.rows = rows(1)};
    attend.groups.most = attend.parts.n_parts = 1;
    attend.layout = {.n_heads = 1, .key_dim = 64, .value_dim = 64, .planes = planes};
    steps.push_back(attend);
    attend.groups.most_rows = 2;
    steps.push_back(attend);
    attend.layout.key_dim = 128;
    steps.push_back(attend);
  }
  const std::vector<std::string> files = {"attend",    "chain",    "choose",   "decode",       "matrix_f16",  "matrix_f32", "matrix_q4",
                                          "matrix_q8", "prompt",   "rows",     "stream",       "wide_f16",    "wide_q4",    "wide_q8",
                                          "quick_f16", "quick_q4", "quick_q8", "quick_attend", "warps_attend"};
  for (const std::string& kernel : kernels_of(lower(steps, target()))) {
    EXPECT_TRUE(listed.contains(kernel)) << kernel;
    EXPECT_TRUE(std::ranges::any_of(files, [&](const std::string& name) { return kernel.starts_with(name); })) << kernel;
  }
#else
  GTEST_SKIP() << "built without nvcc";
#endif
}

}  // namespace
}  // namespace kvik::cuda
