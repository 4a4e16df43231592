#include "cli/model_options.h"

#include <charconv>
#include <fmt/format.h>
#include <map>
#include <sys/resource.h>

#include "cli/network.h"
#include "cli/validators.h"
#include "kvik/compile_cache.h"

namespace kvik::cli {
namespace {

template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& name, T& target, const std::map<std::string, T>& choices,
                        const std::string& help) {
  std::string list;
  for (const auto& [word, value] : choices) list += (list.empty() ? "" : "|") + word;
  return command.add_option(name, target, help)
      ->transform(CLI::CheckedTransformer(choices, CLI::ignore_case).description(""))
      ->option_text(list);
}

// Options of the native backend.
void add_native_options(CLI::App& command, LoadOptions& load) {
  add_weights_option(command, "--weights", load.weights, "Weights format (native backend; auto: as stored)");
  add_choice<KvStorage>(
      command, "--kv", load.kv, {{"auto", KvStorage::kAuto}, {"f32", KvStorage::kF32}, {"f16", KvStorage::kF16}, {"q8", KvStorage::kQ8}},
      "KV cache format (native backend; auto: f16 with q8 and q4 weights or if the file keeps its cache in 16 bits, else f32)");
  command.add_option("--kv-bytes", load.kv_bytes, "Memory limit of the KV cache, e.g. 2GB; 0: none (native backend)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->option_text("N");
  command.add_option("--isa", load.isa, "Instruction set to use (native backend)")
      ->check(CLI::IsMember({"auto", "scalar", "avx2", "avx512", "amx", "neon"}).description(""))
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
  add_choice<Weights>(command, name, weights, {{"auto", kAuto}, {"f32", kF32}, {"f16", kF16}, {"q8", kQ8}, {"q4", kQ4}}, help);
}

void add_model_options(CLI::App& command, ModelOptions& options, Terminal& terminal) {
  command.add_option("MODEL", options.model, "Folder, .onnx file, or name of a model on the search path or in the hub cache")
      ->required()
      ->option_text(" ");
  add_load_options(command, options, terminal);
}

void add_load_options(CLI::App& command, ModelOptions& options, Terminal& terminal) {
  add_choice<BackendChoice>(command, "--backend", options.load.backend,
                            {{"auto", BackendChoice::kAuto},
                             {"native", BackendChoice::kNative},
                             {"ort", BackendChoice::kOrt},
                             {"reference", BackendChoice::kReference}},
                            "Backend to use");
  command
      .add_option_function<std::string>(
          "--device", [&load = options.load](const std::string& name) { set_device(load, name); },
          "Device to run on; auto: a GPU if there is one that can be used")
      ->option_text("auto|cpu|cuda|cuda:N");
  add_native_options(command, options.load);
  command.add_option("--threads", options.load.threads, "Number of threads; 0: one per core")->check(between(0, 1024))->option_text("N");
  command.add_option("--context", options.load.context, "Maximum context length in tokens; 0: as many as the model supports")
      ->check(at_least(0))
      ->option_text("N");
  command.add_flag("--no-compile-cache", options.no_compile_cache,
                   "Neither use nor write plans and packed weights in the cache folder (native backend); also KVIK_CACHE_BYTES=0");
  command.add_option("--cuda-lib", options.load.cuda_library, "Library of the CUDA kernels, libkvik-cuda.so; also KVIK_CUDA_LIB")
      ->option_text("FILE");
  command.add_option("--ort-lib", options.load.ort_library, "Shared library of ONNX Runtime; also KVIK_ORT_LIB")->option_text("FILE");
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
