#include <cmath>
#include <fmt/format.h>

#include "backend/native/fuse.h"
#include "backend/native/probe.h"
#include "backend/native/stages.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

// A weight that is no number would silence the model without a word.
void check_constants(const Plan& plan) {
  for (const Op& op : plan.ops) {
    if (op.as<ReferenceOp>() != nullptr) continue;
    for (const Input& input : op.in) {
      for (const float x : plan.floats(input)) {
        if (!std::isnan(x)) continue;
        const std::string where = op.node == onnx::kNoNode ? "" : plan.flat->graph.nodes[static_cast<size_t>(op.node)].describe();
        throw Error(Code::kBadModel, fmt::format("{}: a constant that it reads holds NaN; export the model again", where));
      }
    }
  }
}

}  // namespace

std::shared_ptr<const Plan> make_plan(const Program& program, std::span<const std::string> no_fuse) {
  Constants constants(*program.flat);
  auto plan = std::make_shared<Plan>(lower(program, constants));
  fuse(*plan, no_fuse);
  split(*plan);
  plan->drop_unused();
  check_constants(*plan);
  return plan;
}

}  // namespace kvik::native
