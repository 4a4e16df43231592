#include "backend/native/make_plan.h"

#include "backend/native/fuse/fuse.h"
#include "backend/native/lower/lower.h"
#include "backend/native/place/place.h"
#include "backend/native/probe/probe.h"

namespace kvik::native {
std::shared_ptr<const Plan> make_plan(const Program& program, std::span<const std::string> no_fuse) {
  Constants constants(*program.flat);
  auto plan = std::make_shared<Plan>(lower(program, constants));
  fuse(*plan, no_fuse);
  split_sections(*plan);
  plan->drop_unused();
  return plan;
}

}  // namespace kvik::native
