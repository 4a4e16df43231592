#include "cli/model_options.h"

#include <charconv>
#include <fmt/format.h>
#include <map>
#include <sys/resource.h>

#include "cli/choices.h"
#include "cli/network.h"
#include "cli/validators.h"
#include "kvik/compile_cache.h"

namespace kvik::cli {
namespace {

// Options of the native backend.
void add_native_options(CLI::App& command, LoadOptions& load) {
  add_weights_option(command, "--weights", load.weights, "Weights format (native backend; auto: as stored)");
  add_choice(
      command,
      {"--kv", "KV cache format (native backend; auto: f16 with q8 and q4 weights or if the file keeps its cache in 16 bits, else f32)"},
      load.kv, Choices<KvStorage>{{"auto", KvStorage::kAuto}, {"f32", KvStorage::kF32}, {"f16", KvStorage::kF16}, {"q8", KvStorage::kQ8}});
  command.add_option("--kv-bytes", load.kv_bytes, "Memory limit of the KV cache, e.g. 2GB; 0: none (native backend)")
      ->transform(byte_count())
      ->option_text("N");
  command.add_option("--isa", load.isa, "Instruction set to use (native backend)")
      ->check(one_of({"auto", "scalar", "avx2", "avx512", "amx", "neon"}))
      ->option_text("auto|scalar|avx2|avx512|amx|neon");
  command.add_option("--no-fuse", load.no_fuse, "Turn off one fusion of the native backend, for comparison (repeatable)")
      ->option_text("NAME");
}

// "cuda:1" is the second GPU.
void set_device(LoadOptions& load, const std::string& name) {
  static const std::map<std::string, Device> kDevices = {{"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"cuda", Device::kCuda}};
  const std::string kind = name.substr(0, name.find(':'));
  const auto found = kDevices.find(kind);
  int index = 0;
  bool is_index = kind == name;
  if (!is_index && kind == "cuda") {
    const char* const last = name.data() + name.size();
    const auto [stop, fault] = std::from_chars(name.data() + kind.size() + 1, last, index);
    is_index = fault == std::errc() && stop == last && index >= 0;
  }
  if (found == kDevices.end() || !is_index)
    throw CLI::ValidationError("--device", fmt::format("unknown device '{}'; expected auto, cpu, cuda or cuda:N", name));
  load.device = found->second;
  load.device_index = index;
}

}  // namespace

void add_weights_option(CLI::App& command, const std::string& name, Weights& weights, const std::string& help) {
  using enum Weights;
  add_choice(command, {name, help}, weights, Choices<Weights>{{"auto", kAuto}, {"f32", kF32}, {"f16", kF16}, {"q8", kQ8}, {"q4", kQ4}});
}

void add_model_options(CLI::App& command, ModelOptions& options, Terminal& terminal) {
  command.add_option("MODEL", options.model, "Folder, .onnx file, or name of a model on the search path or in the hub cache")
      ->required()
      ->option_text(" ");
  add_load_options(command, options, terminal);
}

void add_load_options(CLI::App& command, ModelOptions& options, Terminal& terminal) {
  add_choice(command, {"--backend", "Backend to use"}, options.load.backend,
             Choices<BackendChoice>{{"auto", BackendChoice::kAuto},
                                    {"native", BackendChoice::kNative},
                                    {"ort", BackendChoice::kOrt},
                                    {"reference", BackendChoice::kReference}});
  command
      .add_option_function<std::string>(
          "--device", [&load = options.load](const std::string& name) { set_device(load, name); },
          "Device to run on; auto: a usable GPU if there is one, else the CPU")
      ->option_text("auto|cpu|cuda|cuda:N");
  add_native_options(command, options.load);
  command
      .add_option("--threads", options.load.threads,
                  "Number of threads; 0: one per core, and steps of few tokens use fewer if that is faster")
      ->check(between(0, 1024))
      ->option_text("N");
  command.add_option("--context", options.load.context, "Maximum context length in tokens; 0: as many as the model supports")
      ->check(at_least(0))
      ->option_text("N");
  command.add_flag("--no-compile-cache", options.no_compile_cache,
                   "Do not use the compile cache (native backend); also KVIK_CACHE_BYTES=0");
  command.add_option("--cuda-lib", options.load.cuda_library, "CUDA kernel library, libkvik-cuda.so; also KVIK_CUDA_LIB")
      ->option_text("FILE");
  command.add_option("--ort-lib", options.load.ort_library, "ONNX Runtime's shared library; also KVIK_ORT_LIB")->option_text("FILE");
  command.add_option("--variant", options.load.variant, "Precision to load if a folder has several: fp16, q4, quantized …")
      ->option_text("NAME");
  command.add_flag("--profile", terminal.profile,
                   "Print the time, bytes and share of bandwidth of each kind of operation on standard error");
  command.add_option("--trace", terminal.trace, "Write a timeline of operations and threads that chrome://tracing and Perfetto open")
      ->option_text("FILE");
  add_common_options(command, terminal);
}

Model load_model(const ModelOptions& options, const Terminal& terminal) {
  LoadOptions load = options.load;
  const Log log = terminal.log();
  load.log = [log](LogLevel level, std::string_view message) { log.log(level, message); };
  load.profile = terminal.recording;
  offer_to_pull(options.model, load.variant, terminal);
  if (!options.no_compile_cache) load.compile_cache = default_compile_cache();
  return Model::load(options.model, load);
}

std::vector<TokenId> parse_ids(const std::string& text) {
  std::vector<TokenId> ids;
  for (size_t begin = text.find_first_not_of(kIdSeparators); begin != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kIdSeparators, begin), text.size());
    const char* const last = text.data() + end;
    TokenId id = 0;
    const auto [stop, fault] = std::from_chars(text.data() + begin, last, id);
    if (fault != std::errc() || stop != last || id < 0) {
      throw Error(Code::kBadArgument, fmt::format("'{}' is not a token id; whole numbers separated by commas or spaces were expected",
                                                  text.substr(begin, std::min<size_t>(end - begin, 60))));
    }
    ids.push_back(id);
    begin = text.find_first_not_of(kIdSeparators, end);
  }
  return ids;
}

size_t peak_resident_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace kvik::cli
