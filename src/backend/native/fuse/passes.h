#pragma once

#include "backend/native/plan/plan.h"

// The fusions, one file each (NAME.cc); fuse.cc lists them in order. Each takes an indexed plan and leaves it indexed; it returns the
// number of ops that it created. Passes match computations, not the node patterns of one exporter.
namespace kvik::native {

int fuse_canonical(Plan& plan);
int fuse_moves(Plan& plan);
int fuse_integer_matmul(Plan& plan);
int fuse_quantized_embed(Plan& plan);
int fuse_fake_quantize(Plan& plan);
int fuse_norm(Plan& plan);
int fuse_activation(Plan& plan);
int fuse_rotary(Plan& plan);
int fuse_scale(Plan& plan);
int fuse_late_repeat(Plan& plan);
int fuse_kv_heads(Plan& plan);
int fuse_gate(Plan& plan);
int fuse_matmul_bias(Plan& plan);
int fuse_matmul_merge(Plan& plan);
int fuse_rotary_merge(Plan& plan);
int fuse_skip_norm(Plan& plan);

}  // namespace kvik::native
