#include "backend/graph/sources.h"

#include <algorithm>

#include "kvik/error.h"

namespace kvik::backend {
namespace {

// Hidden states are [B, E, d].
analysis::State hidden_layout() {
  analysis::State layout;
  layout.batch_axis = 0;
  layout.position_axis = 1;
  return layout;
}

ValuePtr join(const analysis::State& layout, const std::vector<ValueRow>& rows, int n_positions, Executor& executor) {
  // All rows of one value in order: nothing to copy.
  const ValuePtr& first = rows.front().value;
  const size_t n_sequences = layout.batch_axis < 0 ? 1 : static_cast<size_t>(first->dims()[static_cast<size_t>(layout.batch_axis)]);
  bool as_it_is = n_sequences == rows.size() && (layout.batch_axis < 0 || layout.head_axis != layout.batch_axis) &&
                  (layout.position_axis < 0 || first->dims()[static_cast<size_t>(layout.position_axis)] == n_positions);
  for (size_t i = 0; i < rows.size(); ++i) as_it_is = as_it_is && rows[i].value == first && rows[i].row == static_cast<int>(i);
  if (as_it_is) return first;
  std::vector<StateRow> tensors;
  for (const ValueRow& row : rows) tensors.push_back({row.value->to_host(), row.row});
  return executor.from_host(gather_rows(layout, tensors, n_positions));
}

}  // namespace

std::shared_ptr<SourcePack> pack_sources(const std::vector<SourcePtr>& members, const Slots& slots, Executor& executor) {
  auto pack = std::make_shared<SourcePack>();
  pack->members = members;
  for (const SourcePtr& member : members) pack->n_positions = std::max(pack->n_positions, member->n_positions());

  std::vector<ValueRow> hidden;
  for (const SourcePtr& member : members) {
    if (member->hidden_states().value != nullptr) hidden.push_back(member->hidden_states());
  }
  if (hidden.size() == members.size()) pack->hidden_states = join(hidden_layout(), hidden, pack->n_positions, executor);

  std::vector<std::vector<ValueRow>> cross;
  for (const SourcePtr& member : members) cross.push_back(member->cross());
  const bool known = std::all_of(cross.begin(), cross.end(), [&](const auto& rows) { return rows.size() == slots.cross.size(); });
  if (!known) return pack;
  for (size_t s = 0; s < slots.cross.size(); ++s) {
    std::vector<ValueRow> rows;
    for (const auto& of_member : cross) rows.push_back(of_member[s]);
    pack->cross.push_back(join(slots.cross[s].layout, rows, pack->n_positions, executor));
  }
  return pack;
}

Tensor source_mask(const analysis::Port& port, const SourcePack& pack, bool of_what_was_read) {
  const auto n_sequences = static_cast<int64_t>(pack.members.size());
  const auto length = [&](const SourcePtr& source) { return of_what_was_read ? source->n_read() : source->n_positions(); };
  int64_t n_positions = 0;
  for (const SourcePtr& member : pack.members) n_positions = std::max<int64_t>(n_positions, length(member));
  Tensor mask(port.dtype, {n_sequences, n_positions});
  const auto write = [&](auto target) {
    using T = std::remove_reference_t<decltype(target[0])>;
    for (int64_t b = 0; b < n_sequences; ++b) {
      for (int64_t e = 0; e < n_positions; ++e)
        target[static_cast<size_t>(b * n_positions + e)] = T(e < length(pack.members[static_cast<size_t>(b)]) ? 1 : 0);
    }
  };
  switch (port.dtype) {
    case DType::kI64: write(mask.mutable_data<int64_t>()); break;
    case DType::kI32: write(mask.mutable_data<int32_t>()); break;
    case DType::kF32: write(mask.mutable_data<float>()); break;
    case DType::kF16: write(mask.mutable_data<Half>()); break;
    case DType::kBool: write(mask.mutable_data<bool>()); break;
    default:
      throw Error(Code::kUnsupported,
                  "the mask '" + port.name + "' has the type " + std::string(dtype_name(port.dtype)) + ", which no exporter uses for it");
  }
  return mask;
}

void remember_cross(const SourcePack& pack) {
  for (size_t i = 0; i < pack.members.size(); ++i) {
    std::vector<ValueRow> rows;
    for (const ValuePtr& value : pack.cross) rows.push_back({value, static_cast<int>(i)});
    pack.members[i]->set_cross(std::move(rows));
  }
}

}  // namespace kvik::backend
