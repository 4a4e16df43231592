#include "backend/native/execute/device/schedule.h"

#include <cstddef>
#include <cstring>
#include <optional>

namespace kvik::native {
namespace {

using device::Address;
using device::View;

View shifted(View view, int64_t n_bytes) {
  if (view.base != Address::kNone) view.base = view.base + n_bytes;
  if (view.beyond != Address::kNone) view.beyond = view.beyond + n_bytes;
  return view;
}

device::Spread spread_of(Spread spread) {
  switch (spread) {
    case Spread::kEvery: return device::Spread::kEvery;
    case Spread::kPerGroup: return device::Spread::kPerGroup;
    case Spread::kOne: return device::Spread::kOne;
    default: return device::Spread::kAll;
  }
}

class Scheduler {
 public:
  Scheduler(const DevicePlan& plan, const CallShape& shape, const StepMemory& memory, DeviceProgram& program)
      : device_plan_(plan), plan_(*plan.plan), shape_(shape), memory_(memory), program_(program) {}

  void run() {
    program_.segments.emplace_back();
    add(memory_.block->begin(program_.layout, host_place(shape_.output_place), memory_.largest));
    if (shape_.source) return add_section(Op::Section::kSource);
    add_section(Op::Section::kBody);
    if (shape_.tail_rows == 0) return;
    enter(Op::Section::kTail);
    gather();
    add_section(Op::Section::kTail);
    const ValueIndex output = plan_.output.index;
    if (shape_.top == 0) return;
    const ChoiceRoom choice = choice_room(shape_.top);
    add(device::Choose{rows_, value_view(output, Op::Section::kTail), static_cast<int32_t>(plan_.output.size), choice.top, choice.room,
                       View{results() + kChoicesAt, static_cast<int64_t>(choice.row_bytes())}, memory_.largest});
  }

  std::span<const View> views() const { return views_; }

 private:
  void enter(Op::Section section) {
    section_ = section;
    const CallBlock& block = *memory_.block;
    const CallLayout& layout = program_.layout;
    const bool own_rows = section == Op::Section::kTail && !shape_.all_wanted;
    rows_ = own_rows ? device::Rows{block.at(layout.tail_rows), block.at(layout.n_tail_rows), shape_.tail_rows, shape_.apart}
                     : device::Rows{block.at(layout.rows), block.at(layout.n_rows), shape_.rows, shape_.apart};
    groups_ = own_rows
                  ? device::RowGroups{block.at(layout.tail_groups), block.at(layout.n_tail_groups), shape_.tail_rows, shape_.group_rows}
                  : device::RowGroups{block.at(layout.groups), block.at(layout.n_groups), shape_.rows, shape_.group_rows};
    halves_.reset();
  }

  void add_section(Op::Section section) {
    enter(section);
    for (size_t i = 0; i < plan_.ops.size(); ++i) {
      const Op& op = plan_.ops[i];
      if (op.section != section) continue;
      index_ = static_cast<OpIndex>(i);
      if (device_plan_.has_kernel(index_)) {
        std::visit([&](const auto& args) { schedule_op(op, args); }, op.args);
        continue;
      }
      program_.segments.back().host_op = index_;
      program_.segments.emplace_back();
      halves_.reset();
    }
  }

  // The rows that want logits, of what the body left.
  void gather() {
    if (shape_.all_wanted) return;
    for (const ValueIndex v : device_plan_.placement.crossing) {
      if (v == plan_.token) continue;
      const View from = value_view(v, Op::Section::kBody), to = value_view(v, Op::Section::kTail);
      add(device::GatherRows{rows_, memory_.block->at(program_.layout.chosen), from, to, to.stride});
    }
  }

  template <class Step>
  void add(const Step& step) {
    program_.segments.back().steps.emplace_back(step);
  }

  View value_view(ValueIndex value, Op::Section section) const {
    const ValueAt at = place_of(device_plan_, shape_, value, section);
    switch (at.arena) {
      case ValueAt::Arena::kRows: return {memory_.block->at(program_.layout.rows + at.offset), at.stride};
      case ValueAt::Arena::kTailRows: return {memory_.block->at(program_.layout.tail_rows + at.offset), at.stride};
      default: return {memory_.arenas[static_cast<size_t>(at.arena)] + at.offset, at.stride};
    }
  }

  Address results() const { return memory_.results[host_place(shape_.output_place)]; }

  View in(const Input& input) const {
    if (!input) return {};
    if (input.is_constant()) return {device_plan_.constant(input)};
    if (input.is_table())
      return memory_.tables->view(input.index, input.offset * element_bytes(plan_.tables[static_cast<size_t>(input.index)].dtype));
    return shifted(value_view(input.index, section_), input.offset * element_bytes(plan_.value(input.index).dtype));
  }

  View out(const Op& op, size_t i = 0) const { return value_view(op.out[i], section_); }
  int64_t out_size(const Op& op) const { return plan_.value(op.out.front()).size; }

  device::Selection selection(const Op& op) const {
    if (op.selection == kNoIndex) return {};
    const View view = value_view(op.selection, section_);
    return {view.base + count_offset(plan_.value(op.selection)), view.stride};
  }

  device::Elementwise elementwise(const Op& op, device::Elementwise::Kind kind) const {
    device::Elementwise step;
    step.rows = rows_;
    step.selection = selection(op);
    step.kind = kind;
    for (size_t i = 0; i < std::min<size_t>(3, op.in.size()); ++i) step.in[i] = in(op.in[i]);
    step.n = out_size(op);
    step.out = out(op);
    return step;
  }

  void schedule_op(const Op& op, const Embed& args) {
    const bool narrow = op.in[0].is_value() && plan_.value(op.in[0].index).dtype == DType::kI32;
    if (!op.in[0].is_value() || op.in[0].index != plan_.token) program_.has_error = true;
    const device::Weights& weights = device_plan_.weights.of_weight[static_cast<size_t>(args.weight)];
    add(device::Embed{rows_, selection(op), in(op.in[0]), narrow, weights, out(op), results()});
  }

  void schedule_op(const Op& op, const Matmul& args) {
    const auto groups = static_cast<int64_t>(args.weights.size());
    for (int64_t g = 0; g < groups; ++g) {
      const int index = args.weights[static_cast<size_t>(g)];
      const device::Weights& weights = device_plan_.weights.of_weight[static_cast<size_t>(index)];
      const HalfRows half = half_rows(device_plan_, op, index);
      const View x{memory_.halves, half.row_bytes()}, scale{memory_.halves + half.scale_offset(), half.row_bytes()};
      const Halves wanted{op.in[0], half, op.selection};
      if (halves_ != wanted) {
        add(device::ToHalf{rows_, selection(op), in(op.in[0]), half.parts, half.k, half.planes, half.padded_k, x, scale});
        halves_ = wanted;
      }
      const int64_t parts = half.parts / (args.shared ? 1 : groups), first = args.shared ? 0 : g * parts;
      device::Matrix step;
      step.rows = rows_;
      step.selection = selection(op);
      step.parts = static_cast<int32_t>(parts);
      step.x = shifted(x, first * half.planes * half.padded_k * 2);
      step.scale = shifted(scale, first * 4);
      step.weights = weights;
      if (op.in.size() > 1 && op.in[1]) step.bias = device_plan_.constant(op.in[1]);
      step.out = shifted(out(op), g * parts * weights.n * 4);
      add(step);
    }
  }

  void schedule_op(const Op& op, const UnaryOp& args) {
    device::Elementwise step = elementwise(op, device::Elementwise::Kind::kUnary);
    step.unary = args.op;
    add(step);
  }

  void schedule_op(const Op& op, const BinaryOp& args) {
    device::Elementwise step = elementwise(op, device::Elementwise::Kind::kBinary);
    step.binary = args.op;
    step.spread[0] = spread_of(args.a);
    step.spread[1] = spread_of(args.b);
    step.groups = args.groups;
    add(step);
  }

  void schedule_op(const Op& op, const GateOp& args) {
    device::Elementwise step = elementwise(op, device::Elementwise::Kind::kGate);
    step.unary = args.op;
    add(step);
  }

  void schedule_op(const Op& op, const ClipOp& args) {
    device::Elementwise step = elementwise(op, device::Elementwise::Kind::kClip);
    step.low = args.low;
    step.high = args.high;
    add(step);
  }

  void schedule_op(const Op& op, const WhereOp& args) {
    device::Elementwise step = elementwise(op, device::Elementwise::Kind::kWhere);
    step.spread[0] = spread_of(args.condition);
    step.spread[1] = spread_of(args.yes);
    step.spread[2] = spread_of(args.no);
    step.groups = args.groups;
    add(step);
  }

  void schedule_norm(const Op& op, const NormOp& args, const View& x, const Input& weight, const Input& bias) {
    add(device::Norm{rows_, selection(op), x, in(weight), in(bias), out(op), out_size(op), args.groups, args.centered, args.epsilon});
  }

  void schedule_op(const Op& op, const NormOp& args) { schedule_norm(op, args, in(op.in[0]), op.in[1], op.in[2]); }

  void schedule_op(const Op& op, const SkipNormOp& args) {
    const View sum = op.out.size() > 1 && op.out[1] != kNoIndex ? out(op, 1) : out(op);
    device::Elementwise step = elementwise(op, device::Elementwise::Kind::kBinary);
    step.in[2] = {};
    step.out = sum;
    add(step);
    if (op.in[2]) {
      step.in[0] = sum;
      step.in[1] = in(op.in[2]);
      add(step);
    }
    schedule_norm(op, args.norm, sum, op.in[3], op.in[4]);
  }

  void schedule_op(const Op& op, const SoftmaxOp& args) {
    add(device::Softmax{rows_, selection(op), in(op.in[0]), out(op), out_size(op), args.groups, args.log});
  }

  void schedule_op(const Op& op, const ReduceOp& args) {
    add(device::Reduction{rows_, selection(op), args.op, in(op.in[0]), out(op), op.in[0].size, args.groups});
  }

  void schedule_op(const Op& op, const RotaryOp& args) {
    add(device::Rotary{rows_, selection(op), in(op.in[0]), in(op.in[1]), in(op.in[2]), out(op), args.n_heads, args.head_dim, args.n_pairs,
                       args.interleaved});
  }

  void schedule_op(const Op& op, const Move& args) {
    const auto first = static_cast<int64_t>(views_.size() * sizeof(View));
    for (const Input& input : op.in) views_.push_back(in(input));
    const auto size = static_cast<int32_t>(element_bytes(plan_.value(op.out.front()).dtype));
    add(device::Move{rows_, selection(op), program_.views.address() + first, device_plan_.move_runs(index_),
                     static_cast<int32_t>(args.runs.size()), size, out(op)});
  }

  void schedule_op(const Op& op, const AppendOp& args) {
    const DeviceAttend& attend = device_plan_.attends[static_cast<size_t>(args.attend)];
    const bool from_source = attend.rule.from_source;
    add(device::Append{rows_, selection(op), in(op.in[0]), in(op.in[1]), from_source ? memory_.source_pages : memory_.pages,
                       memory_.branches, from_source, attend.layout, attend.page_offset});
  }

  void schedule_op(const Op& op, const AttendOp& args) {
    const DeviceAttend& attend = device_plan_.attends[static_cast<size_t>(args.attend)];
    const auto n_heads = static_cast<int32_t>(plan_.attends[static_cast<size_t>(args.attend)].n_heads);
    const device::AttendParts parts{memory_.parts, shape_.n_parts, shape_.spans_a_part};
    device::Attend step;
    step.rows = rows_;
    step.groups = groups_;
    step.q = in(op.in[0]);
    step.pages = attend.rule.from_source ? memory_.source_pages : memory_.pages;
    step.layout = attend.layout;
    step.page_offset = attend.page_offset;
    step.n_heads = n_heads;
    step.most_heads = attend.most_heads;
    step.heads = attend.heads;
    step.first_heads = attend.first_heads;
    step.rule = attend.rule;
    step.parts = parts;
    add(step);
    add(device::MergeSpans{rows_, n_heads, attend.layout.value_dim, attend.rule, parts, out(op)});
  }

  void schedule_op(const Op& op, const ReadRegister& args) {
    add(device::Register{rows_, memory_.registers, args.index, false, register_bytes(args.index), out(op)});
  }
  void schedule_op(const Op& op, const WriteRegister& args) {
    add(device::Register{rows_, memory_.registers, args.index, true, register_bytes(args.index), in(op.in[0])});
  }
  int64_t register_bytes(int index) const {
    const Plan::PlanRegister& r = plan_.registers[static_cast<size_t>(index)];
    return r.size * element_bytes(r.dtype);
  }

  void schedule_op(const Op&, const ReferenceOp&) {}  // always a host step

  // What the memory for rows of products holds.
  struct Halves {
    Input of;
    HalfRows rows;
    ValueIndex selection;
    friend bool operator==(const Halves&, const Halves&) = default;
  };

  const DevicePlan& device_plan_;
  const Plan& plan_;
  const CallShape& shape_;
  const StepMemory& memory_;
  DeviceProgram& program_;
  Op::Section section_ = Op::Section::kBody;
  device::Rows rows_;
  device::RowGroups groups_;
  OpIndex index_ = kNoIndex;  // of the operation that is scheduled
  std::optional<Halves> halves_;
  std::vector<View> views_;
};

}  // namespace

ChoiceRoom choice_room(int n_candidates) {
  if (n_candidates <= 0 || n_candidates > 256) return {};
  if (n_candidates == 1) return {1, 6};
  return n_candidates <= 64 ? ChoiceRoom{64, 78} : ChoiceRoom{256, 270};
}

int64_t view_bytes(const DevicePlan& plan) {
  int64_t n_views = 0;
  for (const Op& op : plan.plan->ops) n_views += op.as<Move>() != nullptr ? static_cast<int64_t>(op.in.size()) : 0;
  return n_views * static_cast<int64_t>(sizeof(View));
}

ValueAt::Arena output_arena(int32_t place) { return static_cast<ValueAt::Arena>(static_cast<int32_t>(ValueAt::Arena::kOutput) + place); }

ValueAt place_of(const DevicePlan& plan, const CallShape& shape, ValueIndex value, Op::Section section) {
  const bool own_rows = section == Op::Section::kTail && !shape.all_wanted;
  if (value == plan.plan->token)
    return {own_rows ? ValueAt::Arena::kTailRows : ValueAt::Arena::kRows, offsetof(device::Row, token), sizeof(device::Row)};
  const auto i = static_cast<size_t>(value);
  const ValuePlace& place = plan.placement.of_value[i];
  if (section == Op::Section::kSource) return {ValueAt::Arena::kSource, place.offset * shape.rows, place.stride};
  const OpIndex producer = plan.plan->value(value).producer;
  const bool from_tail = producer != kNoIndex && plan.plan->ops[static_cast<size_t>(producer)].section == Op::Section::kTail;
  if (from_tail && shape.output_place >= 0 && value == plan.plan->output.index) return {output_arena(shape.output_place), 0, place.stride};
  if (from_tail) return {ValueAt::Arena::kTail, place.offset * shape.tail_rows, place.stride};
  const ValuePlace& gathered = plan.placement.gathered[i];
  if (own_rows) return {ValueAt::Arena::kTail, gathered.offset * shape.tail_rows, gathered.stride};
  return {ValueAt::Arena::kBody, place.offset * shape.rows, place.stride};
}

DeviceProgram schedule(const DevicePlan& plan, const CallShape& shape, const StepMemory& memory,
                       const std::shared_ptr<SharedDevice>& shared, size_t most_patches) {
  DeviceProgram program;
  program.shape = shape;
  program.layout = CallLayout(shape.rows, shape.tail_rows, most_patches);
  if (const int64_t n_bytes = view_bytes(plan); n_bytes > 0) program.views = DeviceBuffer(shared, static_cast<size_t>(n_bytes), "a plan");
  Scheduler scheduler(plan, shape, memory, program);
  scheduler.run();
  program.views.write(0, std::as_bytes(scheduler.views()));
  return program;
}

}  // namespace kvik::native
