#pragma once

#include <string>

#include "backend/native/native_backend.h"
#include "backend/native/stages.h"
#include "kernels/cpu/kernels.h"

namespace kvik::native {
struct SharedDevice;
}

// The traits of the native backend, from its options and plans.
namespace kvik::backend {

int n_threads_of(const NativeOptions& options);
const cpu::CpuKernels& kernels_of(const std::string& isa);  // throws Error(kBadArgument) for a name that this machine does not support
int smaller_limit(int64_t a, int64_t b);                    // 0: unknown

// The KV format requested by the options if the device supports it; otherwise another, with a warning.
cpu::KvFormat kv_format_of(const analysis::Signature& signature, const NativeOptions& options, const Log& log);
// The device of the options, for all runners of a model; null: the CPU.
std::shared_ptr<native::SharedDevice> shared_device(const NativeOptions& options);
// What runs the plans, for the log: "cpu", or "NVIDIA H200 with 3 host steps".
std::string runs_on(const NativeOptions& options, const native::Stages& stages, cpu::KvFormat kv, std::string_view cpu);

// All traits that depend on the plans and options alone: without those of the runners (vocab, sources).
Traits traits_of(const analysis::Signature& signature, const native::Stages& stages, const NativeOptions& options, cpu::KvFormat kv);

int64_t widest_window(const native::Plan& plan);  // how many positions back its rows can see; 0: all

}  // namespace kvik::backend
