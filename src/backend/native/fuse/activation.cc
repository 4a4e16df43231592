// Activations written as primitive operations. A group of elementwise operations on one value is recognized by its results: it is run on
// sample numbers and compared with the activations that have a kernel.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"
#include "kernels/cpu/kernels.h"

namespace kvik::native {
namespace {

using Samples = std::vector<float>;

constexpr size_t kMostOperations = 16;

// Dense where activations bend; a few far away, to detect clipping.
const Samples& samples() {
  static const Samples kSamples = [] {
    Samples x;
    for (int i = -120; i <= 120; ++i) x.push_back(static_cast<float>(i) * 0.1003f);
    for (const float far : {1e-20f, 1e-5f, 1e-3f, 15.0f, 20.0f, 31.0f, 65.0f, 1e3f, 1e5f, 1e8f, 1e12f}) {
      x.push_back(far);
      x.push_back(-far);
    }
    return x;
  }();
  return kSamples;
}

const cpu::CpuKernels& kernels() { return cpu::fastest(); }

// The operations from a root back to one value, the only one that they depend on.
class Cone {
 public:
  Cone(Plan& plan, OpIndex root) : plan_(plan), root_(root) {}

  // Extends it backward until all operations depend on one input again. False if they never do.
  bool widen() {
    do {
      const OpIndex next = ops_.empty() ? root_ : plan_.value(frontier_.rbegin()->second.index).producer;
      if (!ops_.empty() && !can_swallow(frontier_.rbegin()->second)) return false;
      if (!take(next)) return false;
    } while (frontier_.size() != 1);
    return ops_.size() <= kMostOperations;
  }

  const Input& leaf() const { return frontier_.begin()->second; }
  size_t size() const { return ops_.size(); }
  Samples run() const;

 private:
  using Key = std::pair<OpIndex, std::pair<int64_t, int64_t>>;  // latest producer last

  bool can_swallow(const Input& input) const {
    if (!plan_.is_whole(input) || plan_.value(input.index).producer == kNoIndex || ops_.size() >= kMostOperations) return false;
    if (plan_.output.is_value() && plan_.output.index == input.index) return false;
    const std::vector<OpIndex>& consumers = plan_.value(input.index).consumers;
    return std::all_of(consumers.begin(), consumers.end(), [&](OpIndex consumer) { return ops_.contains(consumer); });
  }

  bool take(OpIndex i) {
    const Op& op = plan_.ops[static_cast<size_t>(i)];
    if (!is_elementwise(op) || !same_rows_of(op, plan_.ops[static_cast<size_t>(root_)])) return false;
    if (!ops_.empty()) frontier_.erase(std::prev(frontier_.end()));
    ops_.insert(i);
    for (const Input& input : op.in) {
      if (input.is_value()) frontier_.emplace(Key{plan_.value(input.index).producer, {input.index, input.offset}}, input);
    }
    return !frontier_.empty();
  }

  // Each operand a whole row or one number.
  bool is_elementwise(const Op& op) const {
    std::array<Spread, 3> spreads{};
    if (const auto* binary = op.as<BinaryOp>()) {
      spreads = {binary->a, binary->b};
    } else if (const auto* where = op.as<WhereOp>()) {
      spreads = {where->condition, where->yes, where->no};
    } else if (op.as<UnaryOp>() == nullptr && op.as<ClipOp>() == nullptr && op.as<GateOp>() == nullptr) {
      return false;
    }
    const int64_t n = plan_.value(op.out.front()).size;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const bool whole = op.in[i].is_value() && spreads[i] == Spread::kAll && op.in[i].size == n;
      if (!whole && !plan_.scalar(op.in[i])) return false;
    }
    return true;
  }

  Plan& plan_;
  OpIndex root_;
  std::set<OpIndex> ops_;
  std::map<Key, Input> frontier_;
};

Samples Cone::run() const {
  const auto n = static_cast<int64_t>(samples().size());
  std::map<ValueIndex, Samples> made;
  for (const OpIndex i : ops_) {
    const Op& op = plan_.ops[static_cast<size_t>(i)];
    std::vector<Samples> in;
    for (const Input& input : op.in) {
      if (input == leaf()) {
        in.push_back(samples());
      } else if (input.is_value()) {
        in.push_back(made.at(input.index));
      } else {
        in.emplace_back(samples().size(), *plan_.scalar(input));
      }
    }
    Samples y(samples().size());
    if (const auto* unary = op.as<UnaryOp>()) kernels().unary(unary->op, in[0].data(), y.data(), n);
    if (const auto* binary = op.as<BinaryOp>()) kernels().binary(binary->op, {in[0].data()}, {in[1].data()}, y.data(), n);
    if (op.as<WhereOp>() != nullptr) kernels().where({in[0].data()}, {in[1].data()}, {in[2].data()}, y.data(), n);
    if (const auto* clip = op.as<ClipOp>()) kernels().clip(in[0].data(), clip->low, clip->high, y.data(), n);
    if (const auto* gate = op.as<GateOp>()) kernels().gate(gate->op, in[0].data(), in[1].data(), y.data(), n);
    made[op.out.front()] = std::move(y);
  }
  return made.at(plan_.ops[static_cast<size_t>(root_)].out.front());
}

constexpr float kNeverOverflows = 16.0f;  // neither its exponential nor that of a small multiple overflows

// Equal if the expanded form returns a number; for large inputs an intermediate exponential may overflow.
bool agree(const Samples& expanded, const Samples& known) {
  for (size_t i = 0; i < expanded.size(); ++i) {
    if (!std::isfinite(expanded[i]) && std::abs(samples()[i]) > kNeverOverflows) continue;
    if (!(std::abs(expanded[i] - known[i]) <= 2e-6f + 4e-6f * std::abs(known[i]))) return false;
  }
  return true;
}

struct Known {
  Unary op;
  bool times_x = false;  // op(x) * x
  Samples values;
};

const std::vector<Known>& known_activations() {
  static const std::vector<Known> kKnown = [] {
    std::vector<Known> known;
    for (const Unary op : {Unary::kSilu, Unary::kGeluErf, Unary::kGeluTanh, Unary::kGeluQuick, Unary::kRelu, Unary::kSigmoid,
                           Unary::kSoftplus, Unary::kTanh, Unary::kAbs})
      known.push_back({op});
    for (const Unary op : {Unary::kRelu, Unary::kTanh}) known.push_back({op, true});
    const auto n = static_cast<int64_t>(samples().size());
    for (Known& activation : known) {
      activation.values.resize(samples().size());
      kernels().unary(activation.op, samples().data(), activation.values.data(), n);
      if (!activation.times_x) continue;
      for (size_t i = 0; i < samples().size(); ++i) activation.values[i] *= samples()[i];
    }
    return known;
  }();
  return kKnown;
}

bool match_activation(Rewriter& rewriter, OpIndex root) {
  Cone cone(rewriter.plan(), root);
  while (cone.widen()) {
    if (cone.size() == 1 && rewriter.op(root).as<UnaryOp>() != nullptr) continue;
    const Samples expanded = cone.run();
    for (const Known& activation : known_activations()) {
      if (!agree(expanded, activation.values)) continue;
      const Input x = cone.leaf();
      if (activation.times_x) {
        rewriter.become(root, GateOp{activation.op}, {x, x});
      } else {
        rewriter.become(root, UnaryOp{activation.op}, {x});
      }
      return true;
    }
  }
  return false;
}

bool may_end_activation(const Op& op) {
  return op.as<BinaryOp>() != nullptr || op.as<UnaryOp>() != nullptr || op.as<WhereOp>() != nullptr || op.as<ClipOp>() != nullptr;
}

}  // namespace

int fuse_activation(Plan& plan) {
  // Outermost first: a sigmoid that is part of a larger activation is not matched alone.
  return rewrite_each_from_end(plan, "activation", [](Rewriter& rewriter, OpIndex i) {
    return may_end_activation(rewriter.op(i)) && match_activation(rewriter, i);
  });
}

}  // namespace kvik::native
