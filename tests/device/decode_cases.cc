#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "device/scenario.h"
#include "kernels/device/order.h"

namespace kvik::testing_support {

using namespace device;

namespace {

// Rows of sequences of their own, as a decoder's layer has them: rotary, append, attention, merging.
struct DecodeShape {
  std::string name;
  int planes = 1, n_heads = 4, n_kv_heads = 2, key_dim = 64, value_dim = 64, n_pairs = 32;
  std::vector<int> positions = {5};
  int window = 0, n_branches = 0, spans_a_part = 1, n_beyond = 0;  // n_beyond: rows that a launch has room for, and the call has not
  bool biases = false, interleaved = false, early = true, apart = true;
  enum class Rotaries : uint8_t { kNone, kOne, kTwo } rotaries = Rotaries::kOne;
};

class DecodeCase {
 public:
  DecodeCase(Scenario& s, const DecodeShape& shape) : s_(s), shape_(shape), n_(static_cast<int>(shape.positions.size())) {
    layout_ = kv_layout(shape.planes, shape.n_kv_heads, shape.key_dim, shape.value_dim);
    most_ = *std::ranges::max_element(shape.positions) + 1;
    n_slots_ = n_ + shape.n_branches;
  }

  void build() {
    place_pages();
    fill_pages();
    if (shape_.early) s_.add(Begin{.patches = s_.put(std::vector<Patch>(1)), .n_patches = s_.put(std::vector<int32_t>{0})});
    const int64_t q_size = shape_.n_heads * shape_.key_dim, k_size = shape_.n_kv_heads * shape_.key_dim,
                  v_size = shape_.n_kv_heads * shape_.value_dim;
    const Rows rows = decode_rows();
    const View qkv = s_.values(most_rows(), q_size + k_size + v_size);
    View q = qkv, k = at(qkv, q_size);
    rotate(rows, q, k, q_size, k_size);
    s_.add(Append{.rows = rows,
                  .k = k,
                  .v = at(qkv, q_size + k_size),
                  .pages = table_,
                  .branches = branches_,
                  .layout = layout_,
                  .page_offset = kPageOffset});
    attend(rows, q);
  }

 private:
  static constexpr int64_t kPageOffset = 256;
  int most_rows() const { return n_ + shape_.n_beyond; }

  static View at(View view, int64_t n_floats) {
    view.base = Address{static_cast<uint64_t>(view.base) + static_cast<uint64_t>(n_floats * 4)};
    return view;
  }

  // What the pages hold at the end is a result as well.
  void place_pages() {
    n_pages_ = (most_ + kPagePositions - 1) / kPagePositions;
    const int64_t page_bytes = (kPageOffset + layout_.page_bytes + 63) / 64 * 64;
    const View memory = s_.output(n_slots_ * n_pages_, page_bytes);
    std::vector<Address> pages;
    for (int64_t i = 0; i < n_slots_ * n_pages_; ++i)
      pages.push_back(Address{static_cast<uint64_t>(memory.base) + static_cast<uint64_t>(i * page_bytes)});
    table_ = {s_.put(pages), n_pages_};
  }

  // All earlier positions.
  void fill_pages() {
    std::vector<Row> kept;
    for (int slot = 0; slot < n_; ++slot)
      for (int position = 0; position < shape_.positions[static_cast<size_t>(slot)]; ++position)
        kept.push_back({.position = position, .slot = slot});
    const auto n = static_cast<int>(kept.size());
    if (n == 0) return;
    s_.add(Append{.rows = {s_.put(kept), s_.put(std::vector<int32_t>{n}), n},
                  .k = s_.values(n, shape_.n_kv_heads * shape_.key_dim),
                  .v = s_.values(n, shape_.n_kv_heads * shape_.value_dim),
                  .pages = table_,
                  .layout = layout_,
                  .page_offset = kPageOffset});
  }

  Rows decode_rows() {
    s_.rows(n_, most_rows(), shape_.positions);
    std::vector<Row> list = s_.row_list();
    for (Row& row : list) row.beyond = 0;
    std::vector<int32_t> branches;
    for (int i = 0; i < shape_.n_branches; ++i) branches.push_back(n_ + i);
    list[static_cast<size_t>(n_) - 1].n_branches = shape_.n_branches;
    branches_ = s_.put(branches.empty() ? std::vector<int32_t>{0} : branches);
    const Rows rows{s_.put(list), s_.put(std::vector<int32_t>{n_}), most_rows(), shape_.apart};
    std::vector<RowGroup> groups;
    for (int i = 0; i < n_; ++i) groups.push_back({i, 1});
    groups_ = {s_.put(groups), s_.put(std::vector<int32_t>{n_}), most_rows(), 1};
    return rows;
  }

  void rotate(const Rows& rows, View& q, View& k, int64_t q_size, int64_t k_size) {
    if (shape_.rotaries == DecodeShape::Rotaries::kNone) return;
    const View cos{s_.put(s_.floats(int64_t{most_} * shape_.n_pairs)), shape_.n_pairs * 4, Address::kNone, true};
    const View sin{s_.put(s_.floats(int64_t{most_} * shape_.n_pairs)), shape_.n_pairs * 4, Address::kNone, true};
    const auto add = [&](const View& x, int n_heads, const View& out) {
      s_.add(Rotary{.rows = rows,
                    .x = x,
                    .cos = cos,
                    .sin = sin,
                    .out = out,
                    .n_heads = n_heads,
                    .head_dim = shape_.key_dim,
                    .n_pairs = shape_.n_pairs,
                    .interleaved = shape_.interleaved});
    };
    if (shape_.rotaries == DecodeShape::Rotaries::kOne) {
      const View out = s_.output(most_rows(), (q_size + k_size) * 4);
      add(q, shape_.n_heads + shape_.n_kv_heads, out);
      q = out, k = at(out, q_size);
      return;
    }
    const View q_out = s_.output(most_rows(), q_size * 4), k_out = s_.output(most_rows(), k_size * 4);
    add(q, shape_.n_heads, q_out);
    add(k, shape_.n_kv_heads, k_out);
    q = q_out, k = k_out;
  }

  void attend(const Rows& rows, const View& q) {
    Attend step{.rows = rows, .groups = groups_, .q = q, .pages = table_, .layout = layout_, .page_offset = kPageOffset};
    step.n_heads = shape_.n_heads, step.most_heads = shape_.n_heads / shape_.n_kv_heads;
    std::vector<int32_t> heads, first_heads;
    for (int i = 0; i < shape_.n_heads; ++i) {
      if (i % step.most_heads == 0) first_heads.push_back(i);
      heads.push_back(shape_.n_heads - 1 - i);
    }
    first_heads.push_back(shape_.n_heads);
    step.heads = s_.put(heads), step.first_heads = s_.put(first_heads);
    AttendRule& rule = step.rule;
    rule.scale = 0.125f;
    rule.window = shape_.window;
    if (shape_.biases) {
      rule.soft_cap = 20.0f;
      rule.slopes = s_.put(s_.floats(shape_.n_heads, 0.01f));
      rule.distance_bias = s_.put(s_.floats(shape_.n_heads * 50));
      rule.n_distances = 50;
      rule.sinks = s_.put(s_.floats(shape_.n_heads));
    }
    s_.add_attention(step, most_rows(), shape_.spans_a_part, most_);
  }

  Scenario& s_;
  const DecodeShape& shape_;
  int n_, most_ = 0, n_slots_ = 0;
  int64_t n_pages_ = 0;
  KvLayout layout_;
  PageTable table_;
  Address branches_ = Address::kNone;
  RowGroups groups_;
};

// n positions around the borders of pages, spans and groups of spans.
std::vector<int> borders(int n, int most) {
  constexpr int kBorders[] = {0, 31, 127, 1, 128, 32, 255, 256, 1023, 129, 1024, 300, 1152, 2047, 2048, 2300};
  std::vector<int> positions;
  for (size_t i = 0; positions.size() < static_cast<size_t>(n); ++i) {
    const int position = kBorders[i % std::size(kBorders)];
    if (position <= most) positions.push_back(position);
  }
  return positions;
}

std::vector<int> numbers(int first, int n) {
  std::vector<int> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

}  // namespace

std::vector<ScenarioCase> decode_cases() {
  using Rotaries = DecodeShape::Rotaries;
  std::vector<DecodeShape> shapes = {
      {.name = "the shape of a 1.5B decoder", .n_heads = 12, .key_dim = 128, .value_dim = 128, .n_pairs = 64, .positions = {511}},
      {.name = "three rotated apart", .positions = borders(3, 300), .rotaries = Rotaries::kTwo},
      {.name = "not rotated", .positions = borders(3, 300), .rotaries = Rotaries::kNone},
      {.name = "appended before", .positions = borders(17, 300), .n_branches = 1, .apart = false},
      {.name = "rotated apart, appended before", .positions = borders(3, 300), .apart = false, .rotaries = Rotaries::kTwo},
      {.name = "f32, appended before", .planes = 2, .n_pairs = 16, .positions = {200, 31}, .interleaved = true, .apart = false},
      {.name = "late", .positions = {300, 7}, .early = false},
      {.name = "interleaved pairs, some", .n_pairs = 16, .positions = {200, 31}, .interleaved = true},
      {.name = "odd heads", .n_heads = 3, .n_kv_heads = 3, .key_dim = 20, .value_dim = 9, .n_pairs = 8, .positions = {140, 3, 77}},
      {.name = "many heads of a KV head", .n_heads = 40, .positions = {260, 33}},
      {.name = "large heads", .n_heads = 2, .n_kv_heads = 1, .key_dim = 256, .value_dim = 240, .n_pairs = 64, .positions = {130, 300}},
      {.name = "heads without a fused launch", .n_heads = 2, .n_kv_heads = 1, .key_dim = 512, .value_dim = 512, .positions = {130}},
      {.name = "branches", .positions = borders(2, 300), .n_branches = 2},
      {.name = "a window", .positions = {400, 10, 1300}, .window = 150},
      {.name = "biases", .positions = {260, 4}, .biases = true},
      {.name = "groups of spans",
       .n_heads = 2,
       .n_kv_heads = 1,
       .key_dim = 32,
       .value_dim = 32,
       .n_pairs = 16,
       .positions = borders(16, 4000)},
      {.name = "groups of spans, heads of 64", .positions = borders(16, 4000)},
      {.name = "groups of spans, a window", .positions = {2300, 700, 1500}, .window = 900},
      {.name = "groups of spans, branches", .positions = {1100, 2047}, .n_branches = 2},
      {.name = "spans of a 1.5B decoder",
       .n_heads = 12,
       .key_dim = 128,
       .value_dim = 128,
       .n_pairs = 64,
       .positions = {511, 512, 900, 1023, 1024, 0, 640}},
      {.name = "the own position in every place of a page", .positions = numbers(240, 34)},
      {.name = "the own position in every place of a page, heads of 128",
       .key_dim = 128,
       .value_dim = 128,
       .n_pairs = 64,
       .positions = numbers(240, 34),
       .n_branches = 1},
      {.name = "groups of spans, many heads of 128",
       .n_heads = 20,
       .key_dim = 128,
       .value_dim = 128,
       .n_pairs = 64,
       .positions = {1030, 2500},
       .rotaries = Rotaries::kTwo},
      {.name = "groups of spans, heads of 128, a window",
       .key_dim = 128,
       .value_dim = 128,
       .n_pairs = 64,
       .positions = {2300, 700, 1500, 0, 1023},
       .window = 140},
      {.name = "a window of one position", .positions = borders(16, 2300), .window = 1},
      {.name = "fewer rows than there is room for", .positions = {1100, 3, 260}, .n_branches = 1, .n_beyond = 3},
      {.name = "more than 32 groups of spans", .n_heads = 2, .n_kv_heads = 1, .positions = {33800}},
      {.name = "groups of spans as parts", .positions = {2300, 100}, .spans_a_part = 8},
      {.name = "groups of spans and biases", .positions = {1100}, .biases = true},
      {.name = "f32 of a 1.5B decoder", .planes = 2, .n_heads = 12, .key_dim = 128, .value_dim = 128, .n_pairs = 64, .positions = {200}},
      {.name = "f32 in groups", .planes = 2, .positions = {1200, 31}},
  };
  for (const int planes : {1, 2})
    for (const int n : {1, 3, 8, 17, 64})
      shapes.push_back({.name = fmt::format("{} rows, {} planes", n, planes),
                        .planes = planes,
                        .key_dim = 32,
                        .value_dim = 32,
                        .n_pairs = 16,
                        .positions = borders(n, 300)});
  std::vector<ScenarioCase> cases;
  for (const DecodeShape& shape : shapes)
    cases.push_back({"decode, " + shape.name, [shape](Scenario& s) { DecodeCase(s, shape).build(); }});
  return cases;
}

}  // namespace kvik::testing_support
