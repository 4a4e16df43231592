#include "support.h"

#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/native/tables/table_rows.h"
#include "kernels/cpu/kernels.h"

namespace kvik::native::testing_support {
namespace {

const cpu::CpuKernels& kernels() { return *cpu::by_name("scalar"); }
using Floats = std::vector<float>;

float noise(int64_t seed) { return static_cast<float>(std::sin(static_cast<double>(seed) * 12.9898) * 1.7); }

Spread spread_of(int64_t n, const Input& input, int64_t groups) {
  if (input.size == n) return Spread::kAll;
  if (input.size == 1) return Spread::kOne;
  return input.size == n / groups ? Spread::kEvery : Spread::kPerGroup;
}

float at(const Floats& x, Spread spread, int64_t groups, int64_t n, int64_t i) {
  const int64_t group = n / groups;
  switch (spread) {
    case Spread::kAll: return x[static_cast<size_t>(i)];
    case Spread::kEvery: return x[static_cast<size_t>(i % group)];
    case Spread::kPerGroup: return x[static_cast<size_t>(i / group)];
    default: return x[0];
  }
}

// One row of a plan, operation by operation, as plainly as can be.
class Interpreter {
 public:
  Interpreter(const Plan& plan, int64_t position) : plan_(plan), position_(position), values_(plan.values.size()) {
    Floats& given = values_[static_cast<size_t>(plan.embedding)];
    for (int64_t i = 0; i < plan.value(plan.embedding).size; ++i) given.push_back(noise(i + 1));
  }

  Floats run() {
    for (const Op& op : plan_.ops) {
      std::vector<Floats> in;
      for (const Input& input : op.in) in.push_back(read(input));
      std::visit([&](const auto& args) { run(op, args, in); }, op.args);
    }
    return read(plan_.output);
  }

 private:
  Floats read(const Input& input) const {
    if (!input) return {};
    Floats all;
    if (input.is_value()) {
      all = values_[static_cast<size_t>(input.index)];
    } else if (input.is_constant()) {
      const auto data = plan_.constants[static_cast<size_t>(input.index)].data<float>();
      all.assign(data.begin(), data.end());
    } else {
      const Tensor row = table_rows(plan_.tables[static_cast<size_t>(input.index)], position_, 1);
      all.assign(row.data<float>().begin(), row.data<float>().end());
    }
    EXPECT_LE(input.offset + input.size, static_cast<int64_t>(all.size()));
    return {all.begin() + input.offset, all.begin() + input.offset + input.size};
  }
  Floats& out(const Op& op, size_t i = 0) {
    Floats& made = values_[static_cast<size_t>(op.out[i])];
    made.assign(static_cast<size_t>(plan_.value(op.out[i]).size), NAN);
    return made;
  }

  template <class Args>
  void run(const Op& op, const Args&, const std::vector<Floats>&) {
    ADD_FAILURE() << "no interpretation of " << op.kind();
  }
  void run(const Op& op, const UnaryOp& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    ASSERT_EQ(y.size(), in[0].size());
    kernels().unary(args.op, in[0].data(), y.data(), static_cast<int64_t>(y.size()));
  }
  void run(const Op& op, const BinaryOp& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    const auto n = static_cast<int64_t>(y.size());
    for (int64_t i = 0; i < n; ++i) {
      const float a = at(in[0], args.a, args.groups, n, i), b = at(in[1], args.b, args.groups, n, i);
      kernels().binary(args.op, {&a}, {&b}, &y[static_cast<size_t>(i)], 1);
    }
  }
  void run(const Op& op, const ClipOp& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    kernels().clip(in[0].data(), args.low, args.high, y.data(), static_cast<int64_t>(y.size()));
  }
  void run(const Op& op, const GateOp& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    kernels().gate(args.op, in[0].data(), in[1].data(), y.data(), static_cast<int64_t>(y.size()));
  }
  void norm(const NormOp& args, const Floats& x, const Floats& weight, const Floats& bias, Floats& y) const {
    const auto group = static_cast<int64_t>(x.size()) / args.groups;
    const auto kernel = args.centered ? kernels().layer_norm : kernels().rms_norm;
    const cpu::NormArgs norm{weight.empty() ? nullptr : weight.data(), bias.empty() ? nullptr : bias.data(), args.epsilon};
    for (int64_t g = 0; g < args.groups; ++g) kernel(x.data() + g * group, y.data() + g * group, group, norm);
  }
  void run(const Op& op, const NormOp& args, const std::vector<Floats>& in) { norm(args, in[0], in[1], in[2], out(op)); }
  void run(const Op& op, const SkipNormOp& args, const std::vector<Floats>& in) {
    Floats sum = in[0];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += in[1][i] + (in[2].empty() ? 0.0f : in[2][i]);
    norm(args.norm, sum, in[3], in[4], out(op));
    if (op.out.size() > 1) out(op, 1) = sum;
  }
  void run(const Op& op, const ReduceOp& args, const std::vector<Floats>& in) {
    const auto group = static_cast<int64_t>(in[0].size()) / args.groups;
    Floats& y = out(op);
    for (int64_t g = 0; g < args.groups; ++g) y[static_cast<size_t>(g)] = kernels().reduce(args.op, in[0].data() + g * group, group);
  }
  void run(const Op& op, const RotaryOp& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    y = in[0];
    kernels().rotary(y.data(), {in[1].data(), in[2].data(), args.n_pairs, args.n_heads, args.head_dim, args.interleaved});
  }
  void run(const Op& op, const Move& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    for (const Move::Run& run : args.runs) {
      const Floats& x = in[static_cast<size_t>(run.input)];
      for (int64_t i = 0; i < run.count; ++i) y[static_cast<size_t>(run.to + i)] = x[static_cast<size_t>(run.from + i)];
    }
  }
  void run(const Op& op, const Matmul& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    size_t column = 0;
    for (const WeightPart& part : plan_.weights[static_cast<size_t>(args.weights.front())].parts) {
      for (int64_t n = 0; n < part.n; ++n, ++column) {
        float sum = in.size() > 1 && !in[1].empty() ? in[1][column] : 0.0f;
        for (int64_t k = 0; k < part.k; ++k) sum += in[0][static_cast<size_t>(k)] * noise(part.value * 7919 + n * part.k + k);
        y[column] = sum;
      }
    }
  }
  void run(const Op&, const AppendOp& args, const std::vector<Floats>& in) { appended_[args.attend] = in[0]; }
  void run(const Op& op, const AttendOp& args, const std::vector<Floats>& in) {
    Floats& y = out(op);
    const float scale = plan_.attends[static_cast<size_t>(args.attend)].scale;
    for (size_t i = 0; i < y.size(); ++i) y[i] = scale * in[0][i] * appended_[args.attend][i];
  }

  const Plan& plan_;
  int64_t position_;
  std::vector<Floats> values_;
  std::map<int, Floats> appended_;
};

}  // namespace

Input PlanBuilder::binary(Binary kind, const Input& a, const Input& b, int64_t groups) {
  const int64_t n = std::max(a.size, b.size);
  return op(BinaryOp{kind, spread_of(n, a, groups), spread_of(n, b, groups), groups}, {a, b}, n);
}

Input PlanBuilder::move(const std::vector<Input>& in, const std::vector<int64_t>& map) {
  Move move;
  for (size_t i = 0; i < map.size(); ++i) {
    int64_t element = map[i];
    int32_t input = 0;
    while (element >= in[static_cast<size_t>(input)].size) element -= in[static_cast<size_t>(input++)].size;
    move.runs.push_back({input, element, static_cast<int64_t>(i), 1});
  }
  return op(std::move(move), in, static_cast<int64_t>(map.size()));
}

Input PlanBuilder::matmul(const Input& a, int64_t n, const Input& bias) {
  WeightPart part;
  part.value = plan_.add_tensor("w" + std::to_string(plan_.weights.size()), Tensor::of<float>({1}, {0.0f}));
  part.k = a.size;
  part.n = n;
  plan_.weights.push_back({a.size, n, {part}});
  return op(Matmul{{static_cast<int>(plan_.weights.size() - 1)}}, {a, bias}, n);
}

int PlanBuilder::table(int64_t size, float (*fn)(int64_t, int64_t)) {
  constexpr int64_t kPositions = 1100;
  PlanTable table;
  table.name = "angles";
  table.size = size;
  table.limit = kPositions;
  table.lookup = Tensor(DType::kF32, {kPositions, size});
  const std::span<float> numbers = table.lookup.mutable_data<float>();
  for (int64_t i = 0; i < kPositions * size; ++i) numbers[static_cast<size_t>(i)] = fn(i / size, i % size);
  plan_.tables.push_back(std::move(table));
  return static_cast<int>(plan_.tables.size() - 1);
}

Input PlanBuilder::attend(const Input& q, const Input& k, const Input& v) {
  plan_.attends.emplace_back();
  const int index = static_cast<int>(plan_.attends.size() - 1);
  sink(AppendOp{index}, {k, v});
  return op(AttendOp{index}, {q}, q.size);
}

Plan PlanBuilder::done(const Input& output) {
  plan_.output = output;
  plan_.index();
  return std::move(plan_);
}

std::vector<float> run(const Plan& plan, int64_t position) { return Interpreter(plan, position).run(); }

int count(const Plan& plan, std::string_view kind) {
  int n = 0;
  for (const Op& op : plan.ops) n += op.kind() == kind ? 1 : 0;
  return n;
}

std::string kinds(const Plan& plan) {
  std::string names;
  for (const Op& op : plan.ops) names += fmt::format("{}{}", names.empty() ? "" : " ", op.kind());
  return names;
}

int fuse_and_compare(int (*pass)(Plan&), Plan& plan) {
  std::vector<std::vector<float>> before;
  for (const int64_t position : {0, 3, 40}) before.push_back(run(plan, position));
  const int n = pass(plan);
  size_t which = 0;
  for (const int64_t position : {0, 3, 40}) {
    const std::vector<float> after = run(plan, position), &expected = before[which++];
    EXPECT_EQ(after.size(), expected.size());
    for (size_t i = 0; i < std::min(after.size(), expected.size()); ++i) {
      EXPECT_NEAR(after[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << kinds(plan) << " element " << i;
    }
  }
  return n;
}

}  // namespace kvik::native::testing_support
