#include <functional>
#include <limits>

#include "base/aligned_buffer.h"
#include "kernels/cpu/attention.h"
#include "kernels/support.h"
#include "kvik/error.h"

namespace kvik::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Dims {
  int64_t n_heads, n_kv_heads, key_dim, value_dim;
};

// The cache of one sequence, filled by one table's append, beside the plain keys and values it was given.
class Sequence {
 public:
  Sequence(const CpuKernels& kernels, KvFormat format, const Dims& dims, int64_t n, uint32_t seed = 3, float scale = 1.0f)
      : layout_(kv_layout(format, dims.n_kv_heads, dims.key_dim, dims.value_dim)), dims_(dims) {
    Numbers numbers(seed);
    keys_ = numbers.normals(n * dims.n_kv_heads * dims.key_dim, scale);
    values_ = numbers.normals(n * dims.n_kv_heads * dims.value_dim);
    const int64_t n_pages = (n + kPagePositions - 1) / kPagePositions;
    memory_ = AlignedBuffer(static_cast<size_t>(n_pages * layout_.page_bytes + kOffset));
    // What no one may read: NaN in every format.
    std::ranges::fill(memory_.bytes(), std::byte{0xff});
    for (int64_t p = 0; p < n_pages; ++p) pages_.push_back(memory_.data() + p * layout_.page_bytes);
    for (int64_t i = 0; i < n; ++i) append(kernels, i, key(i), value(i));
  }
  void append(const CpuKernels& kernels, int64_t position, const float* k, const float* v) {
    kernels.append(layout_, pages_[static_cast<size_t>(position / kPagePositions)] + kOffset, position % kPagePositions, k, v);
  }
  const KvLayout& layout() const { return layout_; }
  int64_t length() const { return static_cast<int64_t>(keys_.size()) / (dims_.n_kv_heads * dims_.key_dim); }
  const std::byte* const* pages() const { return pages_.data(); }
  const AlignedBuffer& memory() const { return memory_; }
  const float* key(int64_t i) const { return keys_.data() + i * dims_.n_kv_heads * dims_.key_dim; }
  const float* value(int64_t i) const { return values_.data() + i * dims_.n_kv_heads * dims_.value_dim; }

  static constexpr int64_t kOffset = 64;  // the layer does not begin where the page does

 private:
  KvLayout layout_;
  Dims dims_;
  std::vector<float> keys_, values_;
  AlignedBuffer memory_;
  std::vector<std::byte*> pages_;
};

Attention attention_of(const Sequence& s, const Dims& dims, const AttendRule& rule) {
  return {.layout = s.layout(), .rule = rule, .n_heads = static_cast<int32_t>(dims.n_heads), .page_offset = Sequence::kOffset};
}

std::vector<float> run(const CpuKernels& kernels, int threads, const Attention& a, std::vector<AttendRow> rows) {
  const auto n_rows = static_cast<int64_t>(rows.size());
  const int64_t width = a.n_heads * a.layout.value_dim;
  std::vector<float> out(static_cast<size_t>(n_rows * width));
  int64_t most = 0;
  for (int64_t r = 0; r < n_rows; ++r) {
    rows[static_cast<size_t>(r)].out = out.data() + r * width;
    most = std::max(most, rows[static_cast<size_t>(r)].n_keys);
  }
  std::vector<float> scratch(static_cast<size_t>(attend_scratch_floats(a, n_rows, most)));
  ThreadPool pool(threads);
  attend(pool, kernels, a, rows, scratch);
  return out;
}

double rounded(double x, const Rounding* roundings, int32_t n) {
  for (int32_t i = 0; i < n; ++i) {
    const Rounding& r = roundings[i];
    const double code =
        std::clamp(std::nearbyint(x / static_cast<double>(r.step)), static_cast<double>(r.low), static_cast<double>(r.high));
    x = code * static_cast<double>(r.unit);
  }
  return x;
}

// Plain attention in double over the keys and values as they were given.
std::vector<double> plain(const Sequence& s, const Dims& d, const AttendRule& rule, const AttendRow& row) {
  std::vector<double> out;
  for (int64_t h = 0; h < d.n_heads; ++h) {
    const int64_t kv = h / (d.n_heads / d.n_kv_heads);
    std::vector<double> scores;
    double most = rule.sinks != nullptr ? static_cast<double>(rule.sinks[h]) : -1e300;
    for (int64_t i = row.first_key; i < row.n_keys; ++i) {
      double score = 0;
      for (int64_t k = 0; k < d.key_dim; ++k)
        score += static_cast<double>(row.q[h * d.key_dim + k]) * static_cast<double>(s.key(i)[kv * d.key_dim + k]);
      score = rounded(score * static_cast<double>(rule.scale), rule.score_roundings, rule.n_score_roundings);
      if (rule.soft_cap != 0) score = static_cast<double>(rule.soft_cap) * std::tanh(score / static_cast<double>(rule.soft_cap));
      if (rule.slopes != nullptr) score += static_cast<double>(rule.slopes[h]) * static_cast<double>(i - row.position);
      if (rule.distance_bias != nullptr) {
        const int64_t at = std::clamp<int64_t>(row.position - i - rule.first_distance, 0, rule.n_distances - 1);
        score += static_cast<double>(rule.distance_bias[h * rule.n_distances + at]);
      }
      if (row.bias != nullptr) score += static_cast<double>(row.bias[h * row.bias_stride + i]);
      scores.push_back(score);
      most = std::max(most, score);
    }
    double total = rule.sinks != nullptr ? std::exp(static_cast<double>(rule.sinks[h]) - most) : 0;
    for (double& score : scores) total += score = std::exp(score - most);
    std::vector<double> sums(static_cast<size_t>(d.value_dim));
    for (int64_t i = row.first_key; i < row.n_keys; ++i) {
      const double weight = rounded(scores[static_cast<size_t>(i - row.first_key)] / total, rule.weight_roundings, rule.n_weight_roundings);
      for (int64_t v = 0; v < d.value_dim; ++v)
        sums[static_cast<size_t>(v)] += weight * static_cast<double>(s.value(i)[kv * d.value_dim + v]);
    }
    out.insert(out.end(), sums.begin(), sums.end());
  }
  return out;
}

double tolerance(KvFormat format) { return format == KvFormat::kF32 ? 2e-5 : format == KvFormat::kF16 ? 1e-2 : 0.06; }

// One result for every table and number of threads, alone and among `rows`; and it is right.
void expect_one_right_result(KvFormat format, const Dims& dims, const AttendRule& rule, std::vector<AttendRow> rows, int64_t n) {
  const Sequence reference(judge(), format, dims, n);
  const auto with_pages = [&](const Sequence& s) {
    for (AttendRow& row : rows) row.pages = s.pages();
    return rows;
  };
  const Attention a = attention_of(reference, dims, rule);
  const std::vector<float> expected = run(judge(), 1, a, with_pages(reference));
  const size_t width = expected.size() / rows.size();
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<double> right = plain(reference, dims, rule, rows[r]);
    for (size_t i = 0; i < width; ++i) ASSERT_NEAR(expected[r * width + i], right[i], tolerance(format)) << "row " << r << " value " << i;
  }
  for (const CpuKernels* kernels : available()) {
    const Sequence own(*kernels, format, dims, n);
    EXPECT_TRUE(std::ranges::equal(own.memory().bytes(), reference.memory().bytes())) << kernels->name;
    const std::vector<AttendRow> own_rows = with_pages(own);
    for (int threads : {1, 2, 5}) EXPECT_TRUE(same_bits(run(*kernels, threads, a, own_rows), expected)) << kernels->name << ' ' << threads;
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<float> alone = run(*kernels, 2, a, {own_rows[r]});
      EXPECT_TRUE(
          same_bits(alone, {expected.begin() + static_cast<int64_t>(r * width), expected.begin() + static_cast<int64_t>((r + 1) * width)}))
          << kernels->name << " row " << r << " alone";
    }
  }
}

// The last `count` positions of n as causal queries with a window (0: none).
std::vector<AttendRow> causal_rows(const std::vector<float>& q, const Dims& d, int64_t n, int64_t count, int64_t window = 0) {
  std::vector<AttendRow> rows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = n - count + i;
    const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, position + 1 - window);
    rows.push_back({.q = q.data() + i * d.n_heads * d.key_dim,
                    .out = nullptr,
                    .pages = nullptr,
                    .first_key = first,
                    .n_keys = position + 1,
                    .position = position});
  }
  return rows;
}

TEST(Attention, EveryFormatAndHeadSizeGivesOneResultOnEveryPath) {
  Numbers numbers;
  for (KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kQ8})
    for (const Dims& d :
         {Dims{4, 4, 64, 64}, Dims{14, 2, 64, 64}, Dims{3, 1, 5, 9}, Dims{6, 2, 80, 48}, Dims{8, 1, 17, 33}, Dims{2, 2, 128, 128}})
      for (int64_t n : {1, 31, 33, 257, 600}) {
        const int64_t count = std::min<int64_t>(n, n > 300 ? 3 : 11);
        const std::vector<float> q = numbers.normals(count * d.n_heads * d.key_dim);
        expect_one_right_result(format, d, {.scale = 1 / std::sqrt(static_cast<float>(d.key_dim))}, causal_rows(q, d, n, count), n);
      }
}

TEST(Attention, EveryRuleGivesOneResultAndTheRightOne) {
  Numbers numbers;
  const int64_t n = 300, count = 10;
  Dims d{6, 3, 24, 24};
  const std::vector<float> q = numbers.normals(count * d.n_heads * d.key_dim), slopes = {0.5f, 0.25f, 0.125f, 0.06f, 0.03f, 0.01f};
  const std::vector<float> table = numbers.normals(d.n_heads * 40), sinks = numbers.normals(d.n_heads, 3.0f),
                           bias = numbers.normals(d.n_heads * n);
  const Rounding coarse[] = {{0.25f, -10, 10, 0.25f}, {0.4f, -4, 3, 0.9f}}, bytes[] = {{1 / 1024.0f, 0, 255, 1 / 1024.0f}};
  const std::vector<AttendRule> rules = {{.scale = 0.2f},
                                         {.scale = 0.2f, .soft_cap = 1.5f},
                                         {.scale = 0.2f, .slopes = slopes.data()},
                                         {.scale = 1.0f, .distance_bias = table.data(), .n_distances = 40, .first_distance = -3},
                                         {.scale = 0.2f, .sinks = sinks.data()},
                                         {.scale = 0.2f, .soft_cap = 2.0f, .slopes = slopes.data(), .sinks = sinks.data()},
                                         {.scale = 0.2f, .score_roundings = coarse, .n_score_roundings = 2, .slopes = slopes.data()},
                                         {.scale = 0.2f, .weight_roundings = bytes, .n_weight_roundings = 1}};
  for (const AttendRule& rule : rules)
    for (int64_t window : {0, 1, 17, 270}) {
      d.n_kv_heads = window == 17 ? 6 : 3;  // a KV head for each query
      std::vector<AttendRow> rows = causal_rows(q, d, n, count, window);
      expect_one_right_result(KvFormat::kF32, d, rule, rows, n);
      for (AttendRow& row : rows) row.bias = bias.data(), row.bias_stride = n;
      expect_one_right_result(KvFormat::kF16, d, rule, rows, n);
    }
}

TEST(Attention, SequencesInOneCallGetTheBitsTheyGetAlone) {
  Numbers numbers;
  for (KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kQ8})
    for (const Dims& d : {Dims{5, 5, 48, 48}, Dims{6, 6, 16, 40}, Dims{6, 2, 32, 32}})
      for (const CpuKernels* kernels : available()) {
        std::vector<Sequence> sequences;
        std::vector<AttendRow> rows;
        const std::vector<float> q = numbers.normals(6 * d.n_heads * d.key_dim);
        for (const int64_t n : {1, 40, 300, 256, 7, 90}) sequences.emplace_back(*kernels, format, d, n, static_cast<uint32_t>(n));
        for (const Sequence& sequence : sequences) {
          const auto i = static_cast<int64_t>(rows.size()), n = sequence.length();
          rows.push_back({.q = q.data() + i * d.n_heads * d.key_dim,
                          .out = nullptr,
                          .pages = sequence.pages(),
                          .first_key = i == 2 ? 70 : 0,
                          .n_keys = n,
                          .position = n - 1});
        }
        const Attention a = attention_of(sequences[0], d, {.scale = 0.2f});
        std::vector<float> alone;
        for (const AttendRow& row : rows) {
          const std::vector<float> one = run(*kernels, 1, a, {row});
          alone.insert(alone.end(), one.begin(), one.end());
        }
        for (int threads : {1, 2, 5}) EXPECT_TRUE(same_bits(run(*kernels, threads, a, rows), alone)) << kernels->name << ' ' << threads;
      }
}

TEST(Attention, RowsOfAnEncoderSeeEverything) {
  Numbers numbers;
  const Dims d{4, 4, 16, 16};
  const int64_t n = 40;
  const std::vector<float> q = numbers.normals(n * d.n_heads * d.key_dim);
  std::vector<AttendRow> rows = causal_rows(q, d, n, n);
  for (AttendRow& row : rows) row.n_keys = n;
  expect_one_right_result(KvFormat::kF32, d, {.scale = 0.25f}, rows, n);
}

TEST(Attention, PagesBeforeTheWindowAreNotTouched) {
  Numbers numbers;
  const Dims d{2, 1, 16, 16};
  const int64_t n = 400, window = 100;
  const std::vector<float> q = numbers.normals(d.n_heads * d.key_dim);
  for (const CpuKernels* kernels : available()) {
    const Sequence s(*kernels, KvFormat::kF16, d, n);
    std::vector<const std::byte*> pages(s.pages(), s.pages() + 13);
    std::vector<AttendRow> rows = causal_rows(q, d, n, 1, window);
    rows[0].pages = s.pages();
    const Attention a = attention_of(s, d, {.scale = 0.25f});
    const std::vector<float> expected = run(*kernels, 1, a, rows);
    std::fill_n(pages.begin(), (n - window) / kPagePositions, nullptr);
    rows[0].pages = pages.data();
    EXPECT_TRUE(same_bits(run(*kernels, 2, a, rows), expected));
  }
}

TEST(Attention, WhatARowDoesNotSeeMayBeAnything) {
  Numbers numbers;
  const Dims d{4, 4, 16, 16};
  const int64_t n = 40, count = 4;
  const std::vector<float> q = numbers.normals(count * d.n_heads * d.key_dim), bad(64, kInf);
  for (const CpuKernels* kernels : available()) {
    Sequence s(*kernels, KvFormat::kF32, d, n);
    std::vector<AttendRow> rows = causal_rows(q, d, n, count);
    for (AttendRow& row : rows) row.pages = s.pages();
    const Attention a = attention_of(s, d, {.scale = 0.25f});
    const std::vector<float> before = run(*kernels, 1, a, rows);
    s.append(*kernels, n - 1, bad.data(), bad.data());  // only the last row sees it
    const std::vector<float> after = run(*kernels, 1, a, rows);
    const auto width = static_cast<int64_t>(before.size()) / count;
    EXPECT_TRUE(same_bits({before.begin(), before.end() - width}, {after.begin(), after.end() - width}));
    EXPECT_TRUE(std::isnan(after.back()));
  }
}

TEST(Attention, CopiedPositionsGiveTheSameResult) {
  Numbers numbers;
  const Dims d{6, 3, 22, 40};
  const std::vector<float> q = numbers.normals(d.n_heads * d.key_dim);
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kQ8}) {
    for (const int n : {1, 2, 15, 16, 17, 31, 32}) {
      const Sequence s(fastest(), format, d, n);
      const Attention a = attention_of(s, d, {.scale = 0.2f});
      std::vector<AttendRow> rows = causal_rows(q, d, n, 1);
      rows[0].pages = s.pages();
      const std::vector<float> expected = run(fastest(), 1, a, rows);
      AlignedBuffer copy(s.memory().size_bytes());
      std::ranges::fill(copy.bytes(), std::byte{0xff});
      copy_positions(s.layout(), s.pages()[0] + Sequence::kOffset, copy.data() + Sequence::kOffset, n);
      const std::byte* const pages[] = {copy.data()};
      rows[0].pages = pages;
      EXPECT_TRUE(same_bits(run(fastest(), 1, a, rows), expected)) << n;
    }
  }
}

TEST(Attention, ARowThatSeesNothingGivesZeros) {
  const Dims d{2, 2, 8, 8};
  const std::vector<float> q(16, 1.0f), hidden(2 * 5, -kInf);
  for (const CpuKernels* kernels : available()) {
    const Sequence s(*kernels, KvFormat::kF32, d, 5);
    const Attention a = attention_of(s, d, {});
    EXPECT_EQ(run(*kernels, 1, a, {{.q = q.data(), .out = nullptr, .pages = s.pages()}}), std::vector<float>(16, 0.0f));
    EXPECT_EQ(
        run(*kernels, 2, a,
            {{.q = q.data(), .out = nullptr, .pages = s.pages(), .n_keys = 5, .position = 4, .bias = hidden.data(), .bias_stride = 5}}),
        std::vector<float>(16, 0.0f));
  }
}

TEST(Attention, HeadsMayShareKeysInAnyOrder) {
  Numbers numbers;
  const Dims d{6, 2, 16, 16};
  const int64_t n = 50;
  const std::vector<int32_t> map = {0, 1, 0, 1, 0, 1};
  const std::vector<float> q = numbers.normals(d.n_heads * d.key_dim);
  std::vector<float> sorted;  // heads 0, 2, 4, 1, 3, 5
  for (int64_t h : {0, 2, 4, 1, 3, 5}) sorted.insert(sorted.end(), q.begin() + h * 16, q.begin() + (h + 1) * 16);
  for (const CpuKernels* kernels : available()) {
    const Sequence s(*kernels, KvFormat::kF16, d, n);
    Attention a = attention_of(s, d, {.scale = 0.25f});
    std::vector<AttendRow> rows = causal_rows(sorted, d, n, 1);
    rows[0].pages = s.pages();
    const std::vector<float> expected = run(*kernels, 1, a, rows);
    a.kv_head_of = map.data();
    rows[0].q = q.data();
    const std::vector<float> got = run(*kernels, 1, a, rows);
    const std::vector<int64_t> order = {0, 2, 4, 1, 3, 5};
    for (size_t i = 0; i < order.size(); ++i)
      for (int64_t v = 0; v < 16; ++v)
        EXPECT_TRUE(same_bits(got[static_cast<size_t>(order[i] * 16 + v)], expected[i * 16 + static_cast<size_t>(v)]));
  }
}

TEST(Attention, RowsOfSeveralSequencesInOneCallAreAsAlone) {
  Numbers numbers;
  const Dims d{8, 2, 32, 32};
  const std::vector<int64_t> lengths = {5, 300, 33, 700, 64};
  const std::vector<float> q = numbers.normals(static_cast<int64_t>(lengths.size()) * d.n_heads * d.key_dim);
  for (const CpuKernels* kernels : available()) {
    std::vector<Sequence> sequences;
    std::vector<AttendRow> rows;
    for (size_t i = 0; i < lengths.size(); ++i) {
      sequences.emplace_back(*kernels, KvFormat::kF16, d, lengths[i], static_cast<uint32_t>(i));
      rows.push_back({.q = q.data() + static_cast<int64_t>(i) * d.n_heads * d.key_dim,
                      .out = nullptr,
                      .pages = nullptr,
                      .n_keys = lengths[i],
                      .position = lengths[i] - 1});
    }
    for (size_t i = 0; i < rows.size(); ++i) rows[i].pages = sequences[i].pages();
    const Attention a = attention_of(sequences[0], d, {.scale = 0.2f});
    std::vector<float> alone;
    for (const AttendRow& row : rows) {
      const std::vector<float> one = run(*kernels, 1, a, {row});
      alone.insert(alone.end(), one.begin(), one.end());
    }
    for (int threads : {1, 2, 3}) EXPECT_TRUE(same_bits(run(*kernels, threads, a, rows), alone)) << kernels->name << ' ' << threads;
  }
}

TEST(Attention, LayoutsThatCannotBeAreRefused) {
  EXPECT_THROW(kv_layout(KvFormat::kF16, 0, 64, 64), Error);
  EXPECT_THROW(kv_layout(KvFormat::kF16, 1, -1, 64), Error);
  EXPECT_THROW(kv_layout(KvFormat::kQ8, 1, 2000, 64), Error);
}

}  // namespace
}  // namespace kvik::cpu
