#pragma once

#include "backend/native/graph/program.h"
#include "backend/native/plan/plan.h"
#include "backend/native/probe/probe.h"

// In: a program over rows, in the nodes of the exporter.
// Out: a plan that computes the same, in the few ops that kernels implement; a node without a rule becomes a reference op. Nothing is
// fused.
// Afterwards: the plan refers to nothing of the compiler: it has copies of the nodes that it runs, and names its weights by where the
// model's files have them.
namespace kvik::native {

// `constants` evaluates the small ones. Throws Error for one that cannot be evaluated, which is a refusal to compile_stages().
Plan lower(const Program& program, Constants& constants);

}  // namespace kvik::native
