#include "backend/native/fuse/rewriter.h"

#include <algorithm>
#include <utility>

namespace kvik::native {
namespace {

void insert_sorted(std::vector<OpIndex>& list, OpIndex i) {
  const auto at = std::lower_bound(list.begin(), list.end(), i);
  if (at == list.end() || *at != i) list.insert(at, i);
}

void erase_sorted(std::vector<OpIndex>& list, OpIndex i) {
  const auto at = std::lower_bound(list.begin(), list.end(), i);
  if (at != list.end() && *at == i) list.erase(at);
}

bool reads(const Op& op, ValueIndex value) {
  return op.selection == value || std::any_of(op.in.begin(), op.in.end(), [&](const Input& x) { return x.is_value() && x.index == value; });
}

bool leaves_something(const Op& op) { return op.as<AppendOp>() != nullptr || op.as<WriteRegister>() != nullptr; }

}  // namespace

Rewriter::Rewriter(Plan& plan, std::string_view pass) : plan_(plan), pass_(pass), dead_(plan.ops.size()) {}

OpIndex Rewriter::producer(const Input& input) const { return plan_.is_whole(input) ? plan_.value(input.index).producer : kNoIndex; }

void Rewriter::become(OpIndex i, Op::Args args, std::vector<Input> in) {
  // New readers are counted first, so that nothing that both forms need is removed in between.
  for (const Input& input : in) {
    if (input.is_value()) insert_sorted(plan_.values[static_cast<size_t>(input.index)].consumers, i);
  }
  const std::vector<Input> before = std::move(op(i).in);
  op(i).args = std::move(args);
  op(i).in = std::move(in);
  op(i).fused_by = pass_;
  for (const Input& input : before) {
    if (input.is_value() && !reads(op(i), input.index) && !pinned_.contains(input.index)) forget(i, input.index);
  }
}

void Rewriter::set_input(OpIndex i, size_t input, const Input& to) {
  const std::string by = op(i).fused_by;
  std::vector<Input> in = op(i).in;
  in[input] = to;
  become(i, op(i).args, std::move(in));
  op(i).fused_by = by;
}

void Rewriter::redirect(ValueIndex from, const Input& to) {
  plan_.replace(from, to);
  const std::vector<OpIndex> moved = std::move(plan_.values[static_cast<size_t>(from)].consumers);
  plan_.values[static_cast<size_t>(from)].consumers.clear();
  for (const OpIndex consumer : moved) {
    if (to.is_value()) insert_sorted(plan_.values[static_cast<size_t>(to.index)].consumers, consumer);
    if (op(consumer).selection == from) insert_sorted(plan_.values[static_cast<size_t>(from)].consumers, consumer);
  }
  const OpIndex maker = plan_.value(from).producer;
  if (maker != kNoIndex) kill_if_unused(maker);
}

ValueIndex Rewriter::widen(OpIndex i, int64_t size) {
  PlanValue made = plan_.value(op(i).out.front());
  made.size = size;
  made.producer = i;
  made.consumers.clear();
  plan_.values.push_back(std::move(made));
  const auto value = static_cast<ValueIndex>(plan_.values.size() - 1);
  plan_.values[static_cast<size_t>(op(i).out.front())].producer = kNoIndex;
  op(i).out = {value};
  return value;
}

ValueIndex Rewriter::add_output(OpIndex i, ValueIndex made) {
  op(i).out.push_back(made);
  plan_.values[static_cast<size_t>(made)].producer = i;
  return made;
}

Input Rewriter::insert_before(OpIndex i, Op::Args args, std::vector<Input> in, int64_t size) {
  PlanValue made = plan_.value(op(i).out.front());
  made.size = size;
  made.producer = kNoIndex;
  made.consumers.clear();
  plan_.values.push_back(std::move(made));
  Op fresh = op(i);
  fresh.args = std::move(args);
  fresh.in = std::move(in);
  fresh.out = {static_cast<ValueIndex>(plan_.values.size() - 1)};
  fresh.fused_by = pass_;
  // It has no index yet, so op i is recorded as the consumer.
  for (const Input& input : fresh.in) {
    if (!input.is_value()) continue;
    insert_sorted(plan_.values[static_cast<size_t>(input.index)].consumers, i);
    pinned_.insert(input.index);
  }
  inserted_.emplace_back(i, std::move(fresh));
  return plan_.whole(inserted_.back().second.out.front());
}

Input Rewriter::constant(std::vector<float> values) {
  const auto n = static_cast<int64_t>(values.size());
  return {Input::Kind::kConstant, plan_.add_constant(Tensor::of<float>({n}, values)), 0, n};
}

int Rewriter::finish() {
  if (!inserted_.empty()) {
    std::stable_sort(inserted_.begin(), inserted_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Op> ops;
    ops.reserve(plan_.ops.size() + inserted_.size());
    size_t next = 0;
    for (size_t i = 0; i < plan_.ops.size(); ++i) {
      while (next < inserted_.size() && static_cast<size_t>(inserted_[next].first) == i) ops.push_back(std::move(inserted_[next++].second));
      ops.push_back(std::move(plan_.ops[i]));
    }
    plan_.ops = std::move(ops);
    inserted_.clear();
  }
  plan_.drop_unused();
  dead_.assign(plan_.ops.size(), false);
  return count_;
}

void Rewriter::forget(OpIndex i, ValueIndex value) {
  erase_sorted(plan_.values[static_cast<size_t>(value)].consumers, i);
  const OpIndex maker = plan_.value(value).producer;
  if (maker != kNoIndex) kill_if_unused(maker);
}

void Rewriter::kill_if_unused(OpIndex i) {
  if (dead_[static_cast<size_t>(i)] || leaves_something(op(i))) return;
  for (const ValueIndex made : op(i).out) {
    if (made == kNoIndex) continue;
    const bool is_output = plan_.output.is_value() && plan_.output.index == made;
    if (!plan_.value(made).consumers.empty() || is_output || pinned_.contains(made)) return;
  }
  dead_[static_cast<size_t>(i)] = true;
  const std::vector<Input> in = std::move(op(i).in);
  const ValueIndex selection = std::exchange(op(i).selection, kNoIndex);
  op(i).in.clear();
  op(i).out.clear();
  for (const Input& input : in) {
    if (input.is_value()) forget(i, input.index);
  }
  if (selection != kNoIndex) forget(i, selection);
}

int rewrite_each(Plan& plan, std::string_view pass, const Match& match) {
  Rewriter rewriter(plan, pass);
  for (OpIndex i = 0; i < rewriter.size(); ++i) {
    if (!rewriter.is_dead(i) && match(rewriter, i)) rewriter.count();
  }
  return rewriter.finish();
}

int rewrite_each_from_end(Plan& plan, std::string_view pass, const Match& match) {
  Rewriter rewriter(plan, pass);
  for (OpIndex i = rewriter.size(); i-- > 0;) {
    if (!rewriter.is_dead(i) && match(rewriter, i)) rewriter.count();
  }
  return rewriter.finish();
}

int64_t spread_element(Spread spread, int64_t groups, int64_t n, int64_t i) {
  switch (spread) {
    case Spread::kAll: return i;
    case Spread::kEvery: return i % (n / groups);
    case Spread::kPerGroup: return i / (n / groups);
    case Spread::kOne: return 0;
  }
  return 0;
}

bool same_rows_of(const Op& a, const Op& b) { return a.section == b.section && a.selection == b.selection; }

const onnx::Node* reference_node(const Plan& plan, const Op* op, std::string_view name) {
  if (op == nullptr || op->as<ReferenceOp>() == nullptr || op->node == onnx::kNoNode) return nullptr;
  const onnx::Node& node = plan.node(*op);
  return node.op == name ? &node : nullptr;
}

std::optional<CodeGrid> grid_of(const Plan& plan, const Op& op, DType otherwise) {
  const auto constant = [&](size_t i) { return &plan.constants[static_cast<size_t>(op.in[i].index)]; };
  const bool has_zero_point = op.in.size() > 2 && op.in[2];
  if (op.in.size() < 2 || !op.in[1].is_constant() || (has_zero_point && !op.in[2].is_constant())) return {};
  return code_grid(*constant(1), has_zero_point ? constant(2) : nullptr, otherwise);
}

std::vector<float> per_group(const Plan& plan, const Input& input, Spread spread, int64_t group) {
  const std::span<const float> values = plan.floats(input);
  if (values.empty()) return {};
  if (const std::optional<float> one = plan.scalar(input)) return std::vector<float>(static_cast<size_t>(group), *one);
  if (spread != Spread::kAll && spread != Spread::kEvery) return {};
  if (static_cast<int64_t>(values.size()) != group) return {};
  return {values.begin(), values.end()};
}

}  // namespace kvik::native
