#pragma once

#include "backend/native/graph/program.h"
#include "backend/native/plan/plan.h"
#include "backend/native/probe/probe.h"

// Cuts what the plan still needs to compute out of the compiler's graph, so that the graph can be freed.
namespace kvik::native {

// The nodes that a table is computed by. Small constants are evaluated here, large ones stay in the model's files. May refuse.
Expected<PositionRecipe> extract_recipe(const Program& program, const PositionTable& table, Constants& constants);

// The nodes that a constant is computed by, which read initializers only. One output. Refuses what is not constant.
Expected<std::shared_ptr<const OwnedGraph>> extract_constant(const onnx::Graph& graph, onnx::ValueId value);

}  // namespace kvik::native
