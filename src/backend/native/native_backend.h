#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/signature.h"
#include "backend/backend.h"
#include "backend/graph/executor.h"
#include "backend/native/execute/weight_choice.h"
#include "base/log.h"
#include "base/recorder.h"
#include "kernels/cpu/attend.h"
#include "kvik/options.h"

namespace kvik::native {
struct Stages;
}
namespace kvik::device {
class Device;
}

namespace kvik::backend {

struct NativeOptions {
  native::WeightChoice weights = native::WeightChoice::kAsStored;
  std::optional<cpu::KvFormat> kv;               // not set: chosen by kv_format_of()
  bool quantizes_rows = true;                    // false: rows that quantized weights multiply stay floats, for comparison
  std::string isa;                               // of the kernels; empty: the fastest this machine has
  int n_threads = 0;                             // 0: one for each core, and steps of few rows use fewer if that is faster
  std::vector<std::string> no_fuse;              // fusions to turn off
  int64_t context = 0;                           // positions that tables must cover; 0: the model's maximum
  std::shared_ptr<const native::Stages> stages;  // already compiled with this context and these fusions; null: compile here
  CompileCache compile_cache;                    // unused if there are stages
  size_t kv_bytes = 0;                           // memory limit of all caches together; 0: no limit
  std::shared_ptr<Recorder> recorder;            // measures ops; null: nothing is measured
  int page_panels = 1;                           // of kPagePositions positions each, in a page of the cache
  std::shared_ptr<device::Device> device;        // runs the plans; null: the CPU
  std::string device_name = "cuda";              // name for users
  bool records_steps = true;                     // false: the device launches its steps one by one
  bool runs_ahead = true;                        // false: the device waits for the host between two calls
  // Opens a stage that is not a program over rows (a convolutional encoder) with another executor; if not set, such models are refused.
  std::function<std::unique_ptr<Executor>(const analysis::File&)> open_other;
};

// Kvik's own compiler and kernels. Throws Error(kUnsupported), naming the node, if the decoder is not a program over rows.
std::unique_ptr<Backend> make_native_backend(analysis::Signature signature, const NativeOptions& options, const Log& log);

}  // namespace kvik::backend
