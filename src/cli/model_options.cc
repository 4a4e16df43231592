#include "cli/model_options.h"

#include <charconv>
#include <fmt/format.h>
#include <iostream>
#include <iterator>
#include <map>
#include <sys/resource.h>

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

// What only the native backend knows.
void add_native_options(CLI::App& command, LoadOptions& load) {
  add_choice<Weights>(
      command, "--weights", load.weights,
      {{"auto", Weights::kAuto}, {"f32", Weights::kF32}, {"f16", Weights::kF16}, {"q8", Weights::kQ8}, {"q4", Weights::kQ4}},
      "How weights are kept (native backend; auto: as stored)");
  add_choice<KvStorage>(command, "--kv", load.kv,
                        {{"auto", KvStorage::kAuto}, {"f32", KvStorage::kF32}, {"f16", KvStorage::kF16}, {"q8", KvStorage::kQ8}},
                        "How keys and values are kept (native backend; auto: f32, or f16 beside weights stored so)");
  command.add_option("--isa", load.isa, "Instruction set of the kernels (native backend)")
      ->check(CLI::IsMember({"auto", "scalar", "avx2", "avx512", "neon"}).description(""))
      ->option_text("auto|scalar|avx2|avx512|neon");
  command.add_option("--no-fuse", load.no_fuse, "Leave out a fusion of the native backend, to compare (repeatable)")->option_text("NAME");
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options, Terminal& terminal) {
  command.add_option("MODEL", options.model, "A folder, an .onnx file, or the name of a model on the search path")
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
                            "Who computes");
  add_choice<Device>(command, "--device", options.load.device, {{"cpu", Device::kCpu}, {"cuda", Device::kCuda}}, "Where");
  add_native_options(command, options.load);
  command.add_option("--threads", options.load.threads, "Threads; 0: one for each core")->check(CLI::Range(0, 1024))->option_text("N");
  command.add_option("--context", options.load.context, "Positions a context may hold; 0: as many as the model has")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  command.add_option("--ort-lib", options.load.ort_library, "ONNX Runtime's shared library; also KVIK_ORT_LIB")->option_text("FILE");
  command.add_option("--variant", options.load.variant, "Which precision of a folder with several: fp16, q4, quantized …")
      ->option_text("NAME");
  add_common_options(command, terminal);
}

void add_sampling_options(CLI::App& command, GenerateOptions& options) {
  command.add_option("-n,--max-tokens", options.max_tokens, "New tokens at most")->check(CLI::NonNegativeNumber)->option_text("N");
  command.add_option("--temperature", options.temperature, "0: the likeliest token; higher: more varied")->option_text("T");
  command.add_option("--top-k", options.top_k, "Sample among the K likeliest tokens; 0: all")->option_text("K");
  command.add_option("--top-p", options.top_p, "Sample among the likeliest tokens that reach probability P together")->option_text("P");
  command.add_option("--min-p", options.min_p, "Sample among tokens at least P times as likely as the likeliest")->option_text("P");
  command.add_option("--repetition-penalty", options.repetition_penalty, "Make tokens that occurred less likely; 1: no")->option_text("X");
  command.add_option("--presence-penalty", options.presence_penalty, "Subtracted once from tokens that were generated")->option_text("X");
  command.add_option("--frequency-penalty", options.frequency_penalty, "Subtracted from tokens as often as they were generated")
      ->option_text("X");
  command.add_option("--no-repeat-ngram-size", options.no_repeat_ngram_size, "No N tokens in a row occur twice")->option_text("N");
  command.add_option("--seed", options.seed, "The same seed gives the same text on every machine")->option_text("N");
  command.add_option("--stop", options.stop, "A text that ends the answer (repeatable)")->option_text("TEXT");
  command
      .add_option(
          "--stop-ids",
          [&options](const CLI::results_t& values) {
            for (const std::string& value : values) {
              for (const TokenId id : parse_ids(value)) options.stop_ids.push_back(id);
            }
            return true;
          },
          "Token ids that end the answer")
      ->option_text("ID,ID…");
  command.add_flag("--ignore-eos", options.ignore_eos, "Go on after the model's own end tokens");
}

Model load_model(const ModelOptions& options, const Terminal& terminal) {
  LoadOptions load = options.load;
  const Log log = terminal.log();
  load.log = [log](LogLevel level, std::string_view message) { log.log(level, message); };
  return Model::load(options.model, load);
}

std::vector<TokenId> parse_ids(const std::string& text) {
  constexpr const char* kBetween = ", \t\r\n[]";
  std::vector<TokenId> ids;
  for (size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    const char* const last = text.data() + end;
    TokenId id = 0;
    const auto [stop, fault] = std::from_chars(text.data() + begin, last, id);
    if (fault != std::errc() || stop != last || id < 0) {
      throw Error(Code::kBadArgument, fmt::format("'{}' is no token id; whole numbers with commas or spaces between them were expected",
                                                  text.substr(begin, std::min<size_t>(end - begin, 60))));
    }
    ids.push_back(id);
    begin = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

std::string read_standard_input() { return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}; }

size_t peak_resident_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace kvik::cli
