#pragma once

#include <string>

#include "backend/native/native_backend.h"
#include "backend/native/stages.h"
#include "kernels/cpu/kernels.h"

// What the native backend tells about itself, read off its options and plans.
namespace kvik::backend {

int n_threads_of(const NativeOptions& options);
const cpu::CpuKernels& kernels_of(const std::string& isa);  // throws Error(kBadArgument) for a name that this machine does not have
int smaller_limit(int64_t a, int64_t b);                    // 0: unknown

// What the bits of a cache depend on beside the model; neither threads nor instruction sets are among it.
std::string cache_form(const NativeOptions& options, cpu::KvFormat kv);

int64_t widest_window(const native::Plan& plan);  // how far back its rows see; 0: to the first position
bool has_causal_attention(const native::Plan& plan);

// What the plans keep and read, in figures.
void count_bytes(const native::Stages& stages, const NativeOptions& options, cpu::KvFormat kv, Traits& traits);

}  // namespace kvik::backend
