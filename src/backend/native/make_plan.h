#pragma once

#include <memory>
#include <span>
#include <string>

#include "backend/native/graph/program.h"
#include "backend/native/plan/plan.h"

namespace kvik::native {

// Lowers, fuses and splits.
std::shared_ptr<const Plan> make_plan(const Program& program, std::span<const std::string> no_fuse);

}  // namespace kvik::native
