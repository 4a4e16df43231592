#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backend/native/plan/plan.h"

// In: a plan as produced by lower/.
// Out: the same plan with fewer and larger ops. Each fusion is a pass with a name, a counter and a switch (--no-fuse).
// Afterwards: results are the same within rounding, with any set of passes turned off; tests compare the fused with the unfused plan. The
// plan contains no weight, table or constant that no op reads.
namespace kvik::native {

struct FusePass {
  std::string_view name;  // for --no-fuse
  std::string_view what;  // one line, for display
  int (*run)(Plan&);      // returns the number of ops that it created; sets Op::fused_by to its name; leaves the plan indexed
};

// In the order in which they run.
std::span<const FusePass> fuse_passes();

// Runs all passes except those named, and counts in Plan::fused. Throws Error(kBadArgument) for an unknown name.
void fuse(Plan& plan, std::span<const std::string> without);

}  // namespace kvik::native
