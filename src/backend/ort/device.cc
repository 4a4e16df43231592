#include "backend/ort/device.h"

#include "backend/ort/small_graphs.h"

namespace kvik::backend::ort {
namespace {

Tensor int64s(std::span<const int64_t> values) {
  Tensor tensor(DType::kI64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_data<int64_t>().begin());
  return tensor;
}

}  // namespace

const OrtSession& Device::session_of(const std::string& model) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(model);
  if (found != sessions_.end()) return found->second;
  return sessions_.try_emplace(model, library_, settings_, std::string_view(model), "a small model of Kvik's own").first->second;
}

ValueHandle Device::to_host(const Value* value, DType dtype) {
  const BoundInput input{kSmallInput, value};
  const Wanted output{kSmallOutput, true};
  return std::move(session_of(copy_graph(dtype)).run({&input, 1}, {&output, 1}).front());
}

ValueHandle Device::select(const Value* value, DType dtype, const Selection& selection) {
  const OrtSession& session = session_of(select_graph(dtype, selection.axis, selection.position_axis));
  const Tensor entries = int64s(selection.entries), positions = int64s({&selection.n_positions, 1});
  const ValueHandle entries_value = session.view_of(entries), positions_value = session.view_of(positions);
  std::vector<BoundInput> inputs = {{kSmallInput, value}, {kSmallEntries, entries_value.get()}};
  if (selection.position_axis >= 0) inputs.push_back({kSmallPositions, positions_value.get()});
  const Wanted output{kSmallOutput};
  return std::move(session.run(inputs, {&output, 1}).front());
}

}  // namespace kvik::backend::ort
