#include "backend/native/fuse/fuse.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/native/fuse/compact.h"
#include "backend/native/fuse/passes.h"
#include "kvik/error.h"

namespace kvik::native {

std::span<const FusePass> fuse_passes() {
  static constexpr FusePass kPasses[] = {
      {"canonical", "equivalent expressions in one form, and common subexpressions once", fuse_canonical},
      {"moves", "merged moves, and parts of values read in place", fuse_moves},
      {"integer_matmul", "dynamic quantization, integer product and scales in one", fuse_integer_matmul},
      {"quantized_embed", "an embedding row of integers and its dequantization in one", fuse_quantized_embed},
      {"fake_quantize", "quantization followed by dequantization, in floats", fuse_fake_quantize},
      {"norm", "normalizations from squares, means and roots", fuse_norm},
      {"activation", "activations from elementwise operations", fuse_activation},
      {"rotary", "rotary positions from products with cosines and sines", fuse_rotary},
      {"scale", "factors of queries and keys into the scale of their attention", fuse_scale},
      {"late_repeat", "elements computed before they are repeated, not after", fuse_late_repeat},
      {"kv_heads", "keys and values of repeated heads kept once", fuse_kv_heads},
      {"gate", "an activation times another value", fuse_gate},
      {"matmul_bias", "constants added to products as their bias", fuse_matmul_bias},
      {"matmul_merge", "products of one row by several matrices in one", fuse_matmul_merge},
      {"rotary_merge", "adjacent queries and keys rotated together", fuse_rotary_merge},
      {"skip_norm", "the sum with a residual and its norm in one", fuse_skip_norm},
  };
  return kPasses;
}

void fuse(Plan& plan, std::span<const std::string> without) {
  for (const std::string& name : without) {
    const auto passes = fuse_passes();
    if (std::any_of(passes.begin(), passes.end(), [&](const FusePass& pass) { return pass.name == name; })) continue;
    std::vector<std::string_view> names;
    for (const FusePass& pass : passes) names.push_back(pass.name);
    throw Error(Code::kBadArgument, fmt::format("unknown fusion '{}'; expected {}", name, fmt::join(names, ", ")));
  }
  plan.index();
  for (const FusePass& pass : fuse_passes()) {
    if (std::find(without.begin(), without.end(), pass.name) != without.end()) continue;
    plan.fused[std::string(pass.name)] = pass.run(plan);
  }
  compact(plan);
}

}  // namespace kvik::native
