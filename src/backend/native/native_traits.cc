#include "backend/native/native_traits.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

#include "backend/native/execute/device/shared_device.h"
#include "backend/native/report.h"
#include "backend/native/source_stage.h"
#include "kvik/error.h"

namespace kvik::backend {

using native::Plan;

namespace {

// Everything besides the model that the bits of a cache depend on; threads and instruction sets do not matter.
std::string cache_form(const NativeOptions& options, cpu::KvFormat kv) {
  static constexpr const char* kWeights[] = {"as stored", "f32", "f16", "q8", "q4"};
  static constexpr const char* kFormats[] = {"f32", "f16", "q8"};
  std::string form =
      fmt::format("native pages, cache {}, weights {}", kFormats[static_cast<size_t>(kv)], kWeights[static_cast<size_t>(options.weights)]);
  if (options.device != nullptr) form += fmt::format(", device {}", options.device->facts().arithmetic);
  if (!options.no_fuse.empty()) form += fmt::format(", without fusing {}", fmt::join(options.no_fuse, ", "));
  return form;
}

bool has_causal_attention(const Plan& plan) {
  return std::ranges::all_of(plan.attends, [](const native::AttentionSpec& attend) { return attend.from_source || attend.causal; });
}

// Memory that the plans store and read.
void count_bytes(const native::Stages& stages, const NativeOptions& options, cpu::KvFormat kv, Traits& traits) {
  for (const std::shared_ptr<const Plan>& plan : {stages.decoder, stages.encoder, stages.embedding}) {
    if (plan == nullptr) continue;
    const native::PlanReport report = native::report(*plan, options.weights, kv);
    for (const auto& [format, bytes] : report.weights) traits.weights_bytes += static_cast<size_t>(bytes);
    if (plan != stages.decoder) continue;
    traits.weights_bytes_per_token = static_cast<size_t>(report.bytes_per_token);
    traits.cache_bytes_per_token = static_cast<size_t>(report.kv_bytes_per_token);
  }
}

}  // namespace

int n_threads_of(const NativeOptions& options) {
  if (options.n_threads > 0) return options.n_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

const cpu::CpuKernels& kernels_of(const std::string& isa) {
  if (isa.empty() || isa == "auto") return cpu::fastest();
  if (const cpu::CpuKernels* kernels = cpu::by_name(isa)) return *kernels;
  std::string names;
  for (const cpu::CpuKernels* kernels : cpu::available()) names += (names.empty() ? "" : ", ") + std::string(kernels->name);
  throw Error(Code::kBadArgument, fmt::format("this machine has no kernels for '{}'; it has {}", isa, names));
}

int smaller_limit(int64_t a, int64_t b) {
  const int64_t limit = a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
  return static_cast<int>(std::min<int64_t>(limit, 1 << 30));
}

cpu::KvFormat kv_format_of(const analysis::Signature& signature, const NativeOptions& options, const Log& log) {
  const cpu::KvFormat format = native::kv_format_of(signature, options.kv, options.weights);
  if (options.device == nullptr || format != cpu::KvFormat::kQ8) return format;
  log.warning(fmt::format("{} keeps the KV cache in f16: it has no kernels for q8", options.device->facts().name));
  return cpu::KvFormat::kF16;
}

std::shared_ptr<native::SharedDevice> shared_device(const NativeOptions& options) {
  return options.device == nullptr ? nullptr : std::make_shared<native::SharedDevice>(options.device);
}

std::string runs_on(const NativeOptions& options, const native::Stages& stages, cpu::KvFormat kv, std::string_view cpu) {
  if (options.device == nullptr) return std::string(cpu);
  int n_host_steps = 0;
  for (const std::shared_ptr<const Plan>& plan : {stages.decoder, stages.encoder, stages.embedding}) {
    if (plan == nullptr) continue;
    for (const auto& [kind, count] : native::host_steps(*plan, kv)) n_host_steps += count;
  }
  return fmt::format("{} with {} host step{}", options.device->facts().name, n_host_steps, n_host_steps == 1 ? "" : "s");
}

int64_t widest_window(const Plan& plan) {
  int64_t widest = 0;
  for (const native::AttentionSpec& attend : plan.attends) {
    if (attend.from_source) continue;
    if (attend.window == 0 || !attend.causal) return 0;
    widest = std::max(widest, attend.window);
  }
  return widest;
}

Traits traits_of(const analysis::Signature& signature, const native::Stages& stages, const NativeOptions& options, cpu::KvFormat kv) {
  const Plan& plan = *stages.decoder;
  Traits traits;
  traits.name = "native";
  traits.device = options.device != nullptr ? options.device_name : "cpu";
  traits.exact = true;
  traits.switch_after = plan.switch_after;
  traits.unsupported_tokens = plan.unsupported_tokens;
  std::sort(traits.unsupported_tokens.begin(), traits.unsupported_tokens.end());
  traits.can_rewind = plan.registers.empty();
  traits.can_branch = plan.registers.empty() && !plan.one_token && has_causal_attention(plan);
  traits.needs_source = signature.kind == analysis::Kind::kEncoderDecoder;
  traits.max_positions = smaller_limit(signature.max_positions.value_or(0), plan.max_positions.value_or(0));
  traits.cache_form = cache_form(options, kv);
  count_bytes(stages, options, kv, traits);
  return traits;
}

}  // namespace kvik::backend
