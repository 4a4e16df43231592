// Steps that share a launch, and what keeps them apart.
#include <gmock/gmock.h>

#include "kernels/cuda/lower.h"
#include "kernels/device/kv_layout.h"

namespace kvik::cuda {
namespace {

using namespace device;

Target fusing_target() {
  Target made{.n_units = 132, .shared_bytes = 225 << 10, .n_tickets = 1 << 16, .tickets = Address{64}};
  made.parts = [](size_t) { return Address{4096}; };
  return made;
}

std::vector<std::string> launched(const std::vector<Step>& steps, const Target& target = fusing_target()) {
  std::vector<std::string> names;
  for (const Action& action : lower(steps, target)) names.push_back(std::get<Launch>(action).kernel);
  return names;
}

constexpr int kRows = 16;
Rows some_rows(bool apart = true) { return {Address{256}, Address{264}, kRows, apart}; }

// Values of so many floats, one behind the other.
class Values {
 public:
  View take(int64_t n) {
    const View view{Address{next_}, n * 4};
    next_ += static_cast<uint64_t>(n * 4 * kRows);
    return view;
  }

 private:
  uint64_t next_ = 1 << 20;
};

View at(View view, int64_t n_floats) {
  view.base = Address{static_cast<uint64_t>(view.base) + static_cast<uint64_t>(n_floats * 4)};
  return view;
}

struct Layer {
  explicit Layer(const Rows& rows) {
    Values values;
    const View qkv = values.take(6 * 64);
    const View turned = values.take(4 * 64);
    rotary = {.rows = rows, .x = qkv, .out = turned, .n_heads = 4, .head_dim = 64, .n_pairs = 32};
    const KvLayout layout = kv_layout(1, 2, 64, 64);
    const PageTable pages{Address{512}, 64};
    append = {.rows = rows, .k = at(turned, 128), .v = at(qkv, 256), .pages = pages, .layout = layout};
    attend = {.rows = rows, .q = turned, .pages = pages, .layout = layout, .n_heads = 2, .most_heads = 1};
    attend.groups = {Address{1}, Address{1}, kRows, 1};
    attend.parts = {Address{128}, 4, 1};
    merge = {.rows = rows, .n_heads = 2, .value_dim = 64, .parts = attend.parts, .out = values.take(2 * 64)};
  }
  std::vector<Step> steps() const { return {Begin{}, rotary, append, attend, merge}; }

  Rotary rotary;
  Append append;
  Attend attend;
  MergeSpans merge;
};

using testing::ElementsAre;

TEST(LowerFused, AttentionOfOneRowASequenceIsOneLaunch) {
  const Layer layer(some_rows());
  const std::vector<Action> actions = lower(layer.steps(), fusing_target());
  ASSERT_EQ(actions.size(), 2u);
  const auto& launch = std::get<Launch>(actions[1]);
  EXPECT_EQ(launch.kernel, "quick_attend_64");
  EXPECT_EQ(launch.cluster, 4u);
  EXPECT_THAT(launch.grid, ElementsAre(4, 2, kRows));
  DecodeLaunch argument;
  std::memcpy(&argument, launch.argument.data(), sizeof argument);
  EXPECT_TRUE(argument.appends && argument.reads_early && argument.queries.there && argument.keys.there);
  EXPECT_EQ(argument.keys.x.base, at(layer.rotary.x, 128).base);
  Target apart = fusing_target();
  apart.fuses_attention = false;
  EXPECT_THAT(launched(layer.steps(), apart), ElementsAre("rows_begin", "rows_program", "attend_1", "rows_program"));
}

// 16 rows, 2 KV heads, 12 spans in two groups: 64 blocks.
TEST(LowerFused, WarpsTakeSpansIfBlocksOfOneEachAreTooMany) {
  Layer layer({Address{256}, Address{264}, 16, true});
  layer.attend.parts.n_parts = 12;
  Target target = fusing_target();
  const auto attention = [&] {
    const std::vector<Action> actions = lower(layer.steps(), target);
    return std::get<Launch>(actions.back());
  };
  constexpr int kRowBytes = 8 * 72 * 2 + 2 * 64 * 2;  // queries of 8 heads; the row's own key and value
  const Launch deep = attention();
  EXPECT_EQ(deep.kernel, "warps_attend_64_deep");
  EXPECT_EQ(deep.cluster, 1u);
  EXPECT_EQ(deep.shared_bytes, 8 * (24 << 10) + kRowBytes);
  EXPECT_THAT(deep.grid, ElementsAre(2, 2, 16));
  target.n_units = 63;
  EXPECT_EQ(attention().kernel, "warps_attend_64");
  EXPECT_EQ(attention().shared_bytes, 8 * (12 << 10) + kRowBytes);
  target.span_warps = SpanWarps::kNever;
  EXPECT_EQ(attention().kernel, "quick_attend_64_far");
  target.span_warps = SpanWarps::kAuto;
  target.n_units = 132;
  layer.attend.parts.n_parts = 8;  // 256 spans
  EXPECT_EQ(attention().kernel, "quick_attend_64");
  target.n_units = 7;
  layer.attend.parts.n_parts = 3;
  EXPECT_EQ(attention().shared_bytes, 3 * (12 << 10) + kRowBytes);
  EXPECT_THAT(attention().grid, ElementsAre(1, 2, 16));
  layer.attend.parts.n_parts = 1;
  EXPECT_EQ(attention().kernel, "quick_attend_64");
  target.span_warps = SpanWarps::kShort;
  EXPECT_EQ(attention().kernel, "warps_attend_64");
}

TEST(LowerFused, RowsThatSeeEachOtherAppendFirst) {
  EXPECT_THAT(launched(Layer(some_rows(false)).steps()), ElementsAre("rows_begin", "append_1", "decode_attend_1_64"));
  Layer prompt(some_rows(false));
  prompt.attend.groups.most_rows = 16;
  EXPECT_THAT(launched(prompt.steps()), ElementsAre("rows_begin", "append_1", "prompt_64", "rows_program"));
}

TEST(LowerFused, WhatOtherBlocksStillReadIsNotOverwritten) {
  Layer layer(some_rows());
  layer.merge.out.base = layer.rotary.x.base;  // where the queries come from
  EXPECT_THAT(launched(layer.steps()), ElementsAre("rows_begin", "append_1", "decode_attend_1_64"));
  layer.merge.out.base = layer.rotary.out.base;  // where the queries are when they are turned
  EXPECT_THAT(launched(layer.steps()), ElementsAre("rows_begin", "append_1", "attend_1", "rows_program"));
  Layer turned_in_place(some_rows());
  turned_in_place.rotary.x = turned_in_place.rotary.out;
  EXPECT_THAT(launched(turned_in_place.steps()), ElementsAre("rows_begin", "append_1", "decode_attend_1_64"));
}

TEST(LowerFused, KeysOfTheSameStepsAreReadLate) {
  const Layer layer(some_rows());
  const auto reads_early = [](const std::vector<Step>& steps) {
    DecodeLaunch argument;
    std::memcpy(&argument, std::get<Launch>(lower(steps, fusing_target()).back()).argument.data(), sizeof argument);
    return argument.reads_early;
  };
  EXPECT_TRUE(reads_early(layer.steps()));
  EXPECT_FALSE(reads_early({layer.rotary, layer.append, layer.attend, layer.merge}));
  std::vector<Step> twice = layer.steps();
  for (const Step& step : {Step(layer.rotary), Step(layer.append), Step(layer.attend), Step(layer.merge)}) twice.push_back(step);
  EXPECT_FALSE(reads_early(twice));
}

TEST(LowerFused, ARotaryWithOtherHeadsIsALaunchOfItsOwn) {
  Layer layer(some_rows());
  layer.rotary.n_heads = 5;
  EXPECT_THAT(launched(layer.steps()), ElementsAre("rows_begin", "rows_program", "quick_attend_64"));
}

TEST(LowerFused, StepsThatReadEachOtherKeepTheirElements) {
  Values values;
  const View a = values.take(1536), b = values.take(1536), sum = values.take(1536), normed = values.take(1536), half = values.take(768);
  const Rows rows = some_rows();
  const Elementwise add{.rows = rows, .kind = Elementwise::Kind::kBinary, .in = {a, b}, .n = 1536, .out = sum};
  const Norm norm{.rows = rows, .x = sum, .out = normed, .n = 1536};
  const ToHalf to_half{.rows = rows, .x = normed, .k = 1536, .padded_k = 1536, .out = half, .scale = values.take(4)};
  EXPECT_THAT(launched({add, norm, to_half}), ElementsAre("chain_1"));
  EXPECT_THAT(launched({add, Softmax{.rows = rows}}), ElementsAre("rows_program"));
  Norm of_other = norm;
  of_other.x = a;
  EXPECT_THAT(launched({add, of_other, to_half}), ElementsAre("rows_program", "chain_1"));
  Norm shifted = norm;
  shifted.out = at(sum, 4);
  ToHalf of_shifted = to_half;
  of_shifted.x = shifted.out;
  EXPECT_THAT(launched({add, shifted, of_shifted}), ElementsAre("rows_program", "rows_program", "chain_1"));
  Norm in_groups = norm;
  in_groups.groups = 12;
  EXPECT_THAT(launched({in_groups}), ElementsAre("rows_program"));
  Target without = fusing_target();
  without.chains_rows = false;
  EXPECT_THAT(launched({add, norm, to_half}, without), ElementsAre("rows_program"));
}

// As a schedule has them: the scale of a row behind its halves.
TEST(LowerFused, AScaleBehindItsRowIsApartFromAllRows) {
  Values values;
  const View a = values.take(512), normed = values.take(512), halves = values.take(272);
  const Rows rows = some_rows();
  const Norm norm{.rows = rows, .x = a, .out = normed, .n = 512};
  ToHalf to_half{.rows = rows, .x = normed, .k = 512, .padded_k = 512, .out = halves, .scale = at(halves, 256)};
  EXPECT_THAT(launched({norm, to_half}), ElementsAre("chain_1"));
  to_half.scale = at(halves, 255);  // in the row
  EXPECT_THAT(launched({norm, to_half}), ElementsAre("chain_1", "rows_program"));
  to_half.scale = at(halves, 272 + 240);  // in the next row
  EXPECT_THAT(launched({norm, to_half}), ElementsAre("chain_1", "rows_program"));
}

TEST(LowerFused, RowsOfAnotherLengthInTheSameMemoryStartALaunch) {
  Values values;
  const View a = values.take(512), b = values.take(512);
  const Rows rows = some_rows();
  const Softmax first{.rows = rows, .x = a, .out = b, .n = 512};
  Softmax second{.rows = rows, .x = b, .out = a, .n = 512};
  EXPECT_THAT(launched({first, second}), ElementsAre("rows_program"));
  second.out.stride = 1024;
  second.n = 256;
  EXPECT_THAT(launched({first, second}), ElementsAre("rows_program", "rows_program"));
}

}  // namespace
}  // namespace kvik::cuda
