#include <algorithm>
#include <fmt/format.h>

#include "analysis/configs.h"
#include "analysis/cross_outputs.h"
#include "analysis/discovery.h"
#include "analysis/fit.h"
#include "analysis/graph_analysis.h"
#include "analysis/port_names.h"
#include "analysis/summary.h"
#include "kvik/error.h"
#include "onnx/reader.h"

namespace kvik::analysis {
namespace {

namespace fs = std::filesystem;

bool makes_cache(const File& file) {
  return std::any_of(file.states.begin(), file.states.end(), [](const State& s) { return s.output >= 0 && !s.cross; });
}
bool reads_encoder(const File& file) {
  return file.input_of(Role::kEncoderHiddenStates) != nullptr || file.input_of(Role::kCrossKey) != nullptr ||
         file.input_of(Role::kCrossValue) != nullptr;
}
bool is_decoder(const File& file) {
  return file.stage == Stage::kDecoder || file.stage == Stage::kDecoderWithPast || file.stage == Stage::kDecoderMerged;
}
bool is_encoder(const File& file) {
  return file.stage == Stage::kEncoder || file.stage == Stage::kAudioEncoder || file.stage == Stage::kVisionEncoder;
}

// If the mask is ambiguous, the class name in config.json distinguishes an encoder with a vocabulary from a decoder without a cache.
void apply_architecture(std::vector<File>& files, const Configs& configs) {
  for (File& file : files) {
    if (!file.states.empty() || reads_encoder(file) || file.output_of(Role::kLogits) == nullptr) continue;
    if (file.stage == Stage::kEncoder && configs.architecture_has({"CausalLM", "LMHeadModel"})) file.stage = Stage::kDecoder;
    if (file.stage == Stage::kDecoder && configs.architecture_has({"MaskedLM", "Classification", "QuestionAnswering"}))
      file.stage = Stage::kEncoder;
  }
}

// A decoder that only outputs a cache and a decoder that reads one are a pair, whatever their names are.
void mark_pairs(std::vector<File>& files) {
  const bool has_first = std::any_of(files.begin(), files.end(),
                                     [](const File& f) { return f.stage == Stage::kDecoder && !f.takes_cache() && makes_cache(f); });
  if (!has_first) return;
  std::vector<File*> later;
  for (File& file : files) {
    if (file.stage == Stage::kDecoder && file.takes_cache()) later.push_back(&file);
  }
  File* chosen = later.size() == 1 ? later.front() : nullptr;
  for (File* file : later) {
    if (name_parts(file->path.stem().string()).has("past")) chosen = file;
  }
  if (chosen != nullptr) chosen->stage = Stage::kDecoderWithPast;
}

// Several complete decoders: takes the named one, or the one with the usual name.
void choose_decoder(Signature& signature, const Discovery& found) {
  std::vector<const File*> rivals;
  for (const File& file : signature.files) {
    if (file.stage == Stage::kDecoder && file.takes_cache()) rivals.push_back(&file);
  }
  if (rivals.size() < 2) return;
  const File* chosen = nullptr;
  for (const File* file : rivals) {
    if (found.named == file->path) chosen = file;
  }
  for (const char* name : {"decoder_model", "decoder", "model"}) {
    for (const File* file : rivals) {
      if (!found.named && variant_name(file->path).base == name) chosen = file;
    }
  }
  if (chosen == nullptr) {
    throw Error(Code::kBadArgument,
                fmt::format("{}: '{}' and '{}' are both complete decoders; pass the path of the one to use", signature.folder.string(),
                            rivals[0]->path.filename().string(), rivals[1]->path.filename().string()));
  }
  const fs::path keep = chosen->path;
  std::erase_if(signature.files, [&](const File& f) { return f.stage == Stage::kDecoder && f.takes_cache() && f.path != keep; });
  signature.problems.push_back(fmt::format("the folder has {} complete decoders; using {}", rivals.size(), keep.filename().string()));
}

// The encoder of an encoder-decoder is kEncoder, whatever its input is.
void mark_encoders(std::vector<File>& files) {
  const bool crosses = std::any_of(files.begin(), files.end(), [](const File& f) { return is_decoder(f) && reads_encoder(f); });
  const bool has_encoder = std::any_of(files.begin(), files.end(), [](const File& f) { return f.stage == Stage::kEncoder; });
  if (!crosses || has_encoder) return;
  for (File& file : files) {
    if (is_encoder(file)) file.stage = Stage::kEncoder;
  }
}

// Keeps the files that the file named by the user needs.
void keep_related_files(std::vector<File>& files, const fs::path& named) {
  const auto at = std::find_if(files.begin(), files.end(), [&](const File& f) { return f.path == named; });
  if (at == files.end()) return;
  const File own = *at;
  std::erase_if(files, [&](const File& f) {
    if (f.path == named) return false;
    if (is_decoder(own) && is_decoder(f)) {
      const bool pair = own.stage != Stage::kDecoderMerged && f.stage != Stage::kDecoderMerged && own.stage != f.stage;
      return !pair;
    }
    if (is_decoder(own))
      return !(reads_encoder(own) ? is_encoder(f)
                                  : own.input_of(Role::kInputsEmbeds) != nullptr && (is_encoder(f) || f.stage == Stage::kEmbedding));
    return !is_decoder(f) || !reads_encoder(f);
  });
}

Kind kind_of(const std::vector<File>& files) {
  bool decodes = false, crosses = false, encodes = false;
  for (const File& file : files) {
    decodes |= is_decoder(file);
    crosses |= is_decoder(file) && reads_encoder(file);
    encodes |= is_encoder(file);
  }
  if (crosses) return Kind::kEncoderDecoder;
  if (decodes) return Kind::kDecoder;
  return encodes ? Kind::kEncoder : Kind::kOther;
}

int sort_key(Stage stage) {
  switch (stage) {
    case Stage::kEncoder: return 0;
    case Stage::kEmbedding: return 1;
    case Stage::kVisionEncoder: return 2;
    case Stage::kAudioEncoder: return 3;
    case Stage::kDecoder: return 4;
    case Stage::kDecoderWithPast: return 5;
    case Stage::kDecoderMerged: return 6;
    case Stage::kOther: return 7;
  }
  return 7;
}

// The source tokens of a graph with encoder and decoder in one.
const Port* source_beside_target(const File& file) {
  for (const Port& port : file.inputs) {
    if (port.role == Role::kUnknown && !is_float(port.dtype) && name_hint(port.name) == NameHint::kTokens) return &port;
  }
  return nullptr;
}

void report_missing_parts(Signature& signature, const Configs& configs) {
  for (std::string& problem : generation_problems(signature)) signature.problems.push_back(std::move(problem));
  if (signature.kind == Kind::kEncoder && configs.flag("is_encoder_decoder"))
    signature.problems.push_back("config.json describes an encoder-decoder, and only the encoder was found; the decoder file is missing");
  const File* first = signature.first_step();
  if (const Port* source = first == nullptr ? nullptr : source_beside_target(*first))
    signature.problems.push_back(fmt::format(
        "{} reads a source ('{}') beside the target, so its encoder would run at every step; export encoder and decoder as separate files",
        first->path.filename().string(), source->name));
  if (first != nullptr && first->stage == Stage::kDecoderWithPast)
    signature.problems.push_back("only the decoder for later steps was found; the file that runs the prompt is missing");
  if (first != nullptr && first->input_of(Role::kInputsEmbeds) != nullptr && first->input_of(Role::kTokenIds) == nullptr &&
      signature.file_of(Stage::kEmbedding) == nullptr)
    signature.problems.push_back("the decoder takes embeddings, and no file that computes them from token ids was found next to it");
}

// Whether a file needs no other file; then the others are not opened.
bool needs_no_other_file(const File& file) {
  const bool of_a_pair = name_parts(file.path.stem().string()).has("past") && name_parts(file.path.stem().string()).has("with");
  if (file.stage == Stage::kOther) return true;
  return is_decoder(file) && file.takes_cache() && !reads_encoder(file) && file.input_of(Role::kTokenIds) != nullptr && !of_a_pair;
}

File read_file(const fs::path& path, const Configs& configs, const Log& log) {
  auto model = std::make_shared<const onnx::Model>(onnx::read_model(path, log));
  File file = analyze_graph(std::move(model), path, hints_for(configs, path));
  complete_states(file, configs);
  return file;
}

}  // namespace

Signature analyze(const fs::path& path, const Options& options, const Log& log) {
  const Configs configs = read_configs(config_folder(path));
  const Discovery found = discover(path, options.variant, configs);
  Signature signature;
  signature.folder = configs.folder;
  if (found.named) signature.files.push_back(read_file(*found.named, configs, log));
  if (!found.named || !needs_no_other_file(signature.files.front())) {
    for (const fs::path& file : found.files) {
      if (file != found.named) signature.files.push_back(read_file(file, configs, log));
    }
  }

  apply_architecture(signature.files, configs);
  mark_pairs(signature.files);
  if (found.named) keep_related_files(signature.files, *found.named);
  choose_decoder(signature, found);
  mark_encoders(signature.files);
  find_cross_outputs(signature.files);
  std::stable_sort(signature.files.begin(), signature.files.end(), [](const File& a, const File& b) {
    return std::pair(sort_key(a.stage), !a.takes_cache()) < std::pair(sort_key(b.stage), !b.takes_cache());
  });
  signature.kind = kind_of(signature.files);
  for (const File& file : signature.files) signature.problems.insert(signature.problems.end(), file.problems.begin(), file.problems.end());
  report_missing_parts(signature, configs);
  summarize(signature, configs);
  return signature;
}

}  // namespace kvik::analysis
