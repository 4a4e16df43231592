#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backend/native/plan/plan.h"

// In: a plan as lower/ makes it.
// Out: the same plan with fewer and larger ops. Each fusion is a pass with a name, a counter and a switch (--no-fuse).
// Afterwards: the result is the same within rounding, with any set of passes left out; the unfused plan is the proof of the fused one. The
// plan names no weight, table or constant that no op reads.
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
