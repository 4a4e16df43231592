#pragma once

#include "backend/native/graph/program.h"
#include "backend/native/plan/plan.h"
#include "backend/native/probe/probe.h"

// In: a program over rows, with the exporter's nodes.
// Out: a plan that computes the same with the few ops that kernels implement; a node without a lowering becomes a reference op. Nothing is
// fused.
// Afterwards: the plan has no references to the compiler: it has copies of the nodes that it runs, and refers to weights by their location
// in the model's files.
namespace kvik::native {

// `constants` evaluates the small ones. Throws Error for one that cannot be evaluated, which is a refusal to compile_stages().
Plan lower(const Program& program, Constants& constants);

}  // namespace kvik::native
