#include "backend/native/plan/plan_file.h"

#include <cstddef>
#include <cstdint>

#include "backend/native/tables/table_rows.h"
#include "kvik/error.h"

namespace {

using kvik::native::PlanModel;
using kvik::native::PlanTable;

// A model with a few tensors that a plan may name.
PlanModel model() {
  auto graph = std::make_shared<kvik::onnx::Graph>();
  for (const int64_t n : {int64_t{4}, int64_t{16}, int64_t{64}}) {
    const kvik::Tensor tensor(kvik::DType::kF32, {n, n});
    graph->initializers.push_back(kvik::native::stored_in_memory(tensor));
  }
  auto made = std::make_shared<kvik::onnx::Model>();
  made->graph = graph;
  return {"model.onnx", made};
}

void compute(const std::vector<PlanTable>& tables) {
  for (const PlanTable& table : tables) {
    try {
      kvik::native::table_rows(table, 0, 3);
    } catch (const kvik::Error&) {}
  }
}

}  // namespace

// Any bytes are well-formed plans, whose tables can be computed, or one sentence says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const PlanModel kModel = model();
  try {
    const kvik::native::SavedPlans saved =
        kvik::native::parse_plans({reinterpret_cast<const std::byte*>(data), size}, {&kModel, 1}, "a plan");
    for (const auto& plan : saved.plans) {
      if (plan != nullptr) compute(plan->tables);
    }
  } catch (const kvik::Error&) {}
  return 0;
}
