#pragma once

#include "backend/native/graph/program.h"
#include "backend/native/plan/plan.h"
#include "backend/native/probe/probe.h"

// Extracts the parts of the compiler's graph that the plan still needs, so that the graph can be freed.
namespace kvik::native {

// The nodes that compute a table. Small constants are evaluated here, large ones stay in the model's files. May refuse.
Expected<PositionRecipe> extract_recipe(const Program& program, const PositionTable& table, Constants& constants);

// The nodes that compute a constant from initializers. One output. Refuses values that are not constant.
Expected<std::shared_ptr<const OwnedGraph>> extract_constant(const onnx::Graph& graph, onnx::ValueId value);

}  // namespace kvik::native
