#pragma once

#include <string>

#include "backend/native/native_backend.h"
#include "backend/native/stages.h"
#include "kernels/cpu/kernels.h"

namespace kvik::native {
struct SharedDevice;
}

// What the native backend tells about itself, read off its options and plans.
namespace kvik::backend {

int n_threads_of(const NativeOptions& options);
const cpu::CpuKernels& kernels_of(const std::string& isa);  // throws Error(kBadArgument) for a name that this machine does not have
int smaller_limit(int64_t a, int64_t b);                    // 0: unknown

// Keys and values as the options ask for them, as far as the device keeps them so: a warning says if it does not.
cpu::KvFormat kv_format_of(const analysis::Signature& signature, const NativeOptions& options, const Log& log);
// The device of the options, for all runners of a model; null: the CPU.
std::shared_ptr<native::SharedDevice> shared_device(const NativeOptions& options);
// Who runs the plans, for the log: `cpu`, or "NVIDIA H200 with 3 host steps".
std::string runs_on(const NativeOptions& options, const native::Stages& stages, cpu::KvFormat kv, std::string_view cpu);

// What the bits of a cache depend on beside the model; neither threads nor instruction sets are among it.
std::string cache_form(const NativeOptions& options, cpu::KvFormat kv);

int64_t widest_window(const native::Plan& plan);  // how far back its rows see; 0: to the first position
bool has_causal_attention(const native::Plan& plan);

// What the plans keep and read, in figures.
void count_bytes(const native::Stages& stages, const NativeOptions& options, cpu::KvFormat kv, Traits& traits);

}  // namespace kvik::backend
