#include "backend/native/place/place.h"

#include <algorithm>

namespace kvik::native {
namespace {

int64_t round_up(int64_t n) { return (n + 63) / 64 * 64; }

// Memory of one arena, in bytes a row.
class Arena {
 public:
  int64_t take(int64_t size) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->size >= size && (best == free_.end() || it->size < best->size)) best = it;
    }
    if (best == free_.end()) {
      const int64_t at = end_;
      end_ += size;
      return at;
    }
    const int64_t at = best->at;
    best->at += size;
    best->size -= size;
    if (best->size == 0) free_.erase(best);
    return at;
  }

  void give_back(int64_t at, int64_t size) {
    const auto next = std::lower_bound(free_.begin(), free_.end(), at, [](const Gap& gap, int64_t a) { return gap.at < a; });
    auto gap = free_.insert(next, {at, size});
    if (const auto after = gap + 1; after != free_.end() && gap->at + gap->size == after->at) {
      gap->size += after->size;
      gap = free_.erase(after) - 1;
    }
    if (gap != free_.begin() && (gap - 1)->at + (gap - 1)->size == gap->at) {
      (gap - 1)->size += gap->size;
      free_.erase(gap);
    }
  }

  int64_t size() const { return end_; }

 private:
  struct Gap {
    int64_t at, size;
  };
  std::vector<Gap> free_;  // by place
  int64_t end_ = 0;
};

constexpr OpIndex kForever = std::numeric_limits<OpIndex>::max();

class Placer {
 public:
  Placer(const Plan& plan, ValueIndex external, int linger) : plan_(plan), external_(external), linger_(static_cast<size_t>(linger)) {
    placement_.of_value.resize(plan.values.size());
    placement_.gathered.resize(plan.values.size());
    for (size_t i = 0; i < plan.values.size(); ++i) {
      const PlanValue& value = plan.values[i];
      const int64_t bytes =
          value.selection == static_cast<ValueIndex>(i) ? count_offset(value) + 4 : value.size * element_bytes(value.dtype);
      placement_.of_value[i].stride = placement_.gathered[i].stride = std::max<int64_t>(64, round_up(bytes));
    }
  }

  Placement run() {
    place_section(Op::Section::kSource, placement_.source_bytes);
    place_section(Op::Section::kBody, placement_.body_bytes);
    place_section(Op::Section::kTail, placement_.tail_bytes);
    return std::move(placement_);
  }

 private:
  void place_section(Op::Section section, int64_t& arena_bytes) {
    Arena arena;
    std::vector<size_t> ops;
    for (size_t i = 0; i < plan_.ops.size(); ++i)
      if (plan_.ops[i].section == section) ops.push_back(i);
    std::vector<std::vector<ValueIndex>> ending(plan_.ops.size());
    const auto end_behind = [&](ValueIndex v, size_t last) {
      const auto at = static_cast<size_t>(std::lower_bound(ops.begin(), ops.end(), last) - ops.begin()) + linger_;
      if (at < ops.size()) ending[ops[at]].push_back(v);
    };
    const bool tail = section == Op::Section::kTail;
    const auto settle = [&](ValueIndex v, std::vector<ValuePlace>& slots) {
      ValuePlace& slot = slots[static_cast<size_t>(v)];
      slot.offset = arena.take(slot.stride);
      const OpIndex last = last_use(v, section);
      if (last != kForever && last != kNoIndex) end_behind(v, static_cast<size_t>(last));
    };
    const auto slot_of = [&](ValueIndex v) -> ValuePlace& {
      ValuePlace& gathered = placement_.gathered[static_cast<size_t>(v)];
      return tail && gathered.offset >= 0 ? gathered : placement_.of_value[static_cast<size_t>(v)];
    };
    if (tail) {
      for (const ValueIndex v : placement_.crossing) settle(v, placement_.gathered);
    } else {
      for (const ValueIndex v : given(section)) settle(v, placement_.of_value);
    }
    for (const size_t i : ops) {
      const Op& op = plan_.ops[i];
      for (const ValueIndex v : op.out) {
        if (v == kNoIndex || v == external_) continue;
        settle(v, placement_.of_value);
        if (plan_.value(v).consumers.empty() && !is_output(v)) end_behind(v, i);
      }
      for (const ValueIndex v : ending[i]) arena.give_back(slot_of(v).offset, slot_of(v).stride);
    }
    arena_bytes = arena.size();
  }

  // The values that are given before the section runs.
  std::vector<ValueIndex> given(Op::Section section) {
    std::vector<ValueIndex> values;
    if (section == Op::Section::kSource) {
      for (const Plan::SourceValue& source : plan_.source_inputs) values.push_back(source.value);
      return values;
    }
    if (plan_.token != kNoIndex) values.push_back(plan_.token);
    if (plan_.embedding != kNoIndex) values.push_back(plan_.embedding);
    return values;
  }

  bool is_output(ValueIndex v) const { return plan_.output.is_value() && plan_.output.index == v; }

  // Within the section; kForever if it must outlive it. Notes what crosses into the tail.
  OpIndex last_use(ValueIndex v, Op::Section section) {
    OpIndex last = kNoIndex;
    bool crosses = false;
    for (const OpIndex consumer : plan_.value(v).consumers) {
      if (plan_.ops[static_cast<size_t>(consumer)].section == section)
        last = std::max(last, consumer);
      else
        crosses = true;
    }
    const bool out = is_output(v);
    if (section == Op::Section::kBody && (crosses || out)) placement_.crossing.push_back(v);
    return crosses || out ? kForever : last;
  }

  const Plan& plan_;
  const ValueIndex external_;
  const size_t linger_;
  Placement placement_;
};

}  // namespace

int64_t element_bytes(DType dtype) { return dtype == DType::kF32 ? 4 : static_cast<int64_t>(storage_bytes(dtype, 1)); }

int64_t count_offset(const PlanValue& value) { return (value.size * element_bytes(value.dtype) + 7) / 8 * 8; }

void split_sections(Plan& plan) {
  std::vector<bool> remembered(plan.values.size());
  for (size_t i = plan.ops.size(); i-- > 0;) {
    Op& op = plan.ops[i];
    if (op.section == Op::Section::kSource) continue;
    const bool keeps =
        op.as<AppendOp>() != nullptr || op.as<WriteRegister>() != nullptr || op.as<ReadRegister>() != nullptr ||
        std::any_of(op.out.begin(), op.out.end(), [&](ValueIndex v) { return v != kNoIndex && remembered[static_cast<size_t>(v)]; });
    op.section = keeps ? Op::Section::kBody : Op::Section::kTail;
    if (!keeps) continue;
    for (const Input& input : op.in) {
      if (input.is_value()) remembered[static_cast<size_t>(input.index)] = true;
    }
    if (op.selection != kNoIndex) remembered[static_cast<size_t>(op.selection)] = true;
  }
}

Placement place(const Plan& plan, ValueIndex external, int linger) { return Placer(plan, external, linger).run(); }

}  // namespace kvik::native
