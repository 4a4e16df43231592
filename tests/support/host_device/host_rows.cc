#include <algorithm>
#include <vector>

#include "kernels/device/math.h"
#include "kernels/device/order.h"
#include "support/host_device/host_steps.h"

namespace kvik::testing_support {
namespace {

using namespace device;

// fn over 256 strands and then a tree.
template <class Value, class Join>
float strands(int64_t n, float start, Value value, Join join) {
  std::vector<float> sums(kStrands, start);
  for (int64_t i = 0; i < n; ++i) sums[static_cast<size_t>(i % kStrands)] = value(sums[static_cast<size_t>(i % kStrands)], i);
  for (size_t half = kStrands / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) sums[i] = join(sums[i], sums[i + half]);
  return sums[0];
}
float add(float a, float b) { return a + b; }
float larger(float a, float b) { return b > a ? b : a; }
float smaller(float a, float b) { return b < a ? b : a; }

float sum_of(const float* x, int64_t n) {
  return strands(
      n, 0.0f, [&](float sum, int64_t i) { return sum + x[i]; }, add);
}
float sum_of_squares(const float* x, int64_t n, float mean) {
  return strands(
      n, 0.0f, [&](float sum, int64_t i) { return fused(x[i] - mean, x[i] - mean, sum); }, add);
}
float largest_of(const float* x, int64_t n) {
  return strands(
      n, -infinity(), [&](float most, int64_t i) { return larger(most, x[i]); }, larger);
}

float operand(const float* x, Spread spread, int64_t i, int64_t size) {
  switch (spread) {
    case Spread::kAll: return x[i];
    case Spread::kEvery: return x[i % size];
    case Spread::kPerGroup: return x[i / size];
    default: return x[0];
  }
}

}  // namespace

void execute(const Begin& step) {
  std::memcpy(at(step.to), at(step.from), static_cast<size_t>(step.n_bytes));
  const int32_t n_continued = step.n_continued == Address::kNone ? 0 : *at<int32_t>(step.n_continued);
  for (int32_t i = 0; i < n_continued; ++i) at<Row>(step.to, step.rows_offset)[i].token = at<int32_t>(step.chosen)[i];
  for (int32_t i = 0; i < *at<int32_t>(step.n_patches); ++i) {
    const Patch& patch = at<Patch>(step.patches)[i];
    *at<uint64_t>(patch.at) = patch.value;
  }
}

void execute(const Elementwise& step) {
  const int64_t size = step.n / step.groups;
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    const auto in = [&](int j, int64_t i) { return operand(row_of(step.in[j], row), step.spread[j], i, size); };
    for (int64_t i = 0; i < step.n; ++i) {
      float y = in(0, i);
      switch (step.kind) {
        case Elementwise::Kind::kUnary: y = unary_of(step.unary, y); break;
        case Elementwise::Kind::kBinary: y = binary_of(step.binary, y, in(1, i)); break;
        case Elementwise::Kind::kGate: y = unary_of(step.unary, y) * in(1, i); break;
        case Elementwise::Kind::kClip: y = clip_of(y, step.low, step.high); break;
        case Elementwise::Kind::kWhere: y = y != 0.0f ? in(1, i) : in(2, i); break;
      }
      row_of(step.out, row)[i] = y;
    }
  });
}

void execute(const Norm& step) {
  const int64_t size = step.n / step.groups;
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    const float* weight = is_there(step.weight) ? row_of(step.weight, row) : nullptr;
    const float* bias = is_there(step.bias) ? row_of(step.bias, row) : nullptr;
    for (int64_t group = 0; group < step.groups; ++group) {
      const float* x = row_of(step.x, row) + group * size;
      const auto n = static_cast<float>(size);
      const float mean = step.centered ? sum_of(x, size) / n : 0.0f;
      const float inverse = 1.0f / root_of(sum_of_squares(x, size, mean) / n + step.epsilon);
      for (int64_t i = 0; i < size; ++i) {
        const float v = (x[i] - mean) * inverse, w = weight != nullptr ? weight[i] : 1.0f;
        row_of(step.out, row)[group * size + i] = bias != nullptr ? fused(v, w, bias[i]) : v * w;
      }
    }
  });
}

void execute(const Softmax& step) {
  const int64_t size = step.n / step.groups;
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    for (int64_t group = 0; group < step.groups; ++group) {
      const float* x = row_of(step.x, row) + group * size;
      float* y = row_of(step.out, row) + group * size;
      const float most = largest_of(x, size);
      const float total = strands(
          size, 0.0f, [&](float sum, int64_t i) { return sum + exp_of(x[i] - most); }, add);
      for (int64_t i = 0; i < size; ++i) y[i] = step.log ? x[i] - most - log_of(total) : exp_of(x[i] - most) / total;
    }
  });
}

void execute(const Reduction& step) {
  const int64_t size = step.n / step.groups;
  const auto reduced = [&](const float* x) {
    switch (step.op) {
      case Reduce::kSum: return sum_of(x, size);
      case Reduce::kMean: return sum_of(x, size) / static_cast<float>(size);
      case Reduce::kMax: return largest_of(x, size);
      case Reduce::kMin:
        return strands(
            size, infinity(), [&](float least, int64_t i) { return smaller(least, x[i]); }, smaller);
      case Reduce::kProd:
        return strands(
            size, 1.0f, [&](float all, int64_t i) { return all * x[i]; }, [](float a, float b) { return a * b; });
      case Reduce::kSumSquare: return sum_of_squares(x, size, 0.0f);
      case Reduce::kSumAbs:
        return strands(
            size, 0.0f, [&](float sum, int64_t i) { return sum + absolute(x[i]); }, add);
      default: return root_of(sum_of_squares(x, size, 0.0f));
    }
  };
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    for (int64_t group = 0; group < step.groups; ++group) row_of(step.out, row)[group] = reduced(row_of(step.x, row) + group * size);
  });
}

void execute(const Rotary& step) {
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    const float *cos = row_of(step.cos, row), *sin = row_of(step.sin, row);
    for (int64_t head = 0; head < step.n_heads; ++head) {
      const float* x = row_of(step.x, row) + head * step.head_dim;
      float* y = row_of(step.out, row) + head * step.head_dim;
      for (int64_t i = 0; i < step.n_pairs; ++i) {
        const int64_t first = step.interleaved ? 2 * i : i, second = step.interleaved ? 2 * i + 1 : i + step.n_pairs;
        const float a = x[first], b = x[second];
        y[first] = fused(-b, sin[i], a * cos[i]);
        y[second] = fused(a, sin[i], b * cos[i]);
      }
      for (int64_t i = 2 * step.n_pairs; i < step.head_dim; ++i) y[i] = x[i];
    }
  });
}

void execute(const Move& step) {
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    for (int32_t i = 0; i < step.n_runs; ++i) {
      const MoveRun& run = at<MoveRun>(step.runs)[i];
      const std::byte* from = row_of<std::byte>(at<View>(step.inputs)[run.input], row) + int64_t{run.from} * step.element_bytes;
      std::memcpy(row_of<std::byte>(step.out, row) + int64_t{run.to} * step.element_bytes, from,
                  static_cast<size_t>(int64_t{run.count} * step.element_bytes));
    }
  });
}

void execute(const Register& step) {
  each_row(step.rows, {}, [&](const RowAt& row) {
    std::byte* kept = at(at<Address>(step.table.registers)[int64_t{row.row.slot} * step.table.n_registers + step.index]);
    std::byte* value = row_of<std::byte>(step.value, row);
    std::memcpy(step.write ? kept : value, step.write ? value : kept, static_cast<size_t>(step.n_bytes));
  });
}

void execute(const GatherRows& step) {
  each_row(step.rows, {}, [&](const RowAt& row) {
    const int32_t chosen = at<int32_t>(step.chosen)[row.index];
    std::memcpy(at(step.to.base, row.index * step.to.stride), at(step.from.base, chosen * step.from.stride),
                static_cast<size_t>(step.n_bytes));
  });
}

void execute(const Choose& step) {
  each_row(step.rows, {}, [&](const RowAt& row) {
    const float* logits = row_of(step.logits, row);
    std::vector<Choice> all;
    for (int32_t i = 0; i < step.n; ++i) all.push_back({logits[i] == logits[i] ? logits[i] : -infinity(), i});
    const auto before = [](const Choice& a, const Choice& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); };
    std::sort(all.begin(), all.end(), before);
    int32_t n = std::min(step.top, step.n);
    while (n < step.n && all[static_cast<size_t>(n)].logit == all[static_cast<size_t>(n - 1)].logit) ++n;
    std::byte* out = row_of<std::byte>(step.out, row);
    std::memcpy(out, &n, sizeof n);
    if (n <= step.room) std::memcpy(out + 16, all.data(), static_cast<size_t>(n) * sizeof(Choice));
    if (step.largest != Address::kNone) at<int32_t>(step.largest)[row.index] = n <= step.room ? all.front().id : 0;
  });
}

void execute(const CopyBytes& step) { std::memmove(at(step.to), at(step.from), static_cast<size_t>(step.n_bytes)); }

}  // namespace kvik::testing_support
