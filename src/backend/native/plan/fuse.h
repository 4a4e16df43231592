#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backend/native/plan/plan.h"

// Fusions are peepholes over a plan that make it fast. Each can be left out by its name, and the result stays the same within rounding:
// the unfused plan is the proof of the fused one.
namespace kvik::native {

struct FusePass {
  std::string_view name;  // for --no-fuse
  std::string_view what;  // one line, for people
  int (*run)(Plan&);      // gives how many operations it made; sets Op::fused_by to its name; leaves the plan indexed
};

// In the order in which they run.
std::span<const FusePass> fuse_passes();

// Runs all passes but those named and counts in Plan::fused. Throws Error(kBadArgument) for a name that no pass has.
void fuse(Plan& plan, std::span<const std::string> without);

}  // namespace kvik::native
