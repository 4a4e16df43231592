#include "backend/native/fuse.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvik/error.h"

namespace kvik::native {

std::span<const FusePass> fuse_passes() { return {}; }

void fuse(Plan& plan, std::span<const std::string> without) {
  for (const std::string& name : without) {
    const auto passes = fuse_passes();
    if (std::any_of(passes.begin(), passes.end(), [&](const FusePass& pass) { return pass.name == name; })) continue;
    std::vector<std::string_view> names;
    for (const FusePass& pass : passes) names.push_back(pass.name);
    throw Error(Code::kBadArgument, fmt::format("no fusion is called '{}'; there are {}", name, fmt::join(names, ", ")));
  }
  plan.index();
  for (const FusePass& pass : fuse_passes()) {
    if (std::find(without.begin(), without.end(), pass.name) != without.end()) continue;
    plan.fused[std::string(pass.name)] = pass.run(plan);
  }
}

}  // namespace kvik::native
