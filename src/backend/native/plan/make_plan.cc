#include "backend/native/plan/make_plan.h"

#include "backend/native/plan/fuse.h"
#include "backend/native/plan/lowering.h"
#include "backend/native/probe/probe.h"

namespace kvik::native {
std::shared_ptr<const Plan> make_plan(const Program& program, std::span<const std::string> no_fuse) {
  Constants constants(*program.flat);
  auto plan = std::make_shared<Plan>(lower(program, constants));
  fuse(*plan, no_fuse);
  split(*plan);
  plan->drop_unused();
  return plan;
}

}  // namespace kvik::native
