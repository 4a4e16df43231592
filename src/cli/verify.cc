#include "engine/verify.h"

#include <algorithm>
#include <fmt/format.h>

#include "api/load.h"
#include "api/state.h"
#include "api/translator.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/synthetic_features.h"
#include "cli/target_options.h"
#include "cli/validators.h"
#include "engine/sequence.h"
#include "engine/verify_translator.h"

namespace kvik::cli {
namespace {

constexpr double kMostInCompany = 0.75;
constexpr int kPromptTokens = 12;  // enough for every kind of split, little enough for a large model

struct VerifyCommand {
  ModelOptions model;
  std::string prompt;
  std::string ids;
  std::string features;
  std::string against = "auto";
  double tolerance = 0;
};

// Ids all over the vocabulary, the same each time.
std::vector<TokenId> synthetic_prompt(int vocab, int limit) {
  std::vector<TokenId> ids;
  const int n = limit > 0 ? std::min(kPromptTokens, limit) : kPromptTokens;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 31) % vocab));
  return ids;
}

bool quantises_activations(const onnx::Graph& graph) {
  for (const onnx::Node& node : graph.nodes) {
    if (node.op == "DynamicQuantizeLinear" || node.op == "DynamicQuantizeMatMul") return true;
    if (node.op == "MatMulNBits" && node.int_or("accuracy_level", 0) == 4) return true;
    for (const onnx::Attribute& attribute : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute.data);
      if (inner != nullptr && quantises_activations(**inner)) return true;
    }
  }
  return false;
}

bool computes_in_half(const onnx::Graph& graph) {
  for (const onnx::TensorData& weight : graph.initializers) {
    if (weight.dtype == DType::kF16 || weight.dtype == DType::kBF16) return true;
  }
  return false;
}

// What a step hands to the next is rounded, though it computes in f32.
bool keeps_in_half(const analysis::File& file) {
  return std::any_of(file.states.begin(), file.states.end(), [](const analysis::State& state) {
    return storage_bytes(state.dtype, 1) == 2 || storage_bytes(state.output_dtype, 1) == 2;
  });
}

// How far two honest ways through the graph may be apart: rounding of the type it computes in, and where weights or activations are
// quantised on one side only, the error of that.
double honest_tolerance(const analysis::Signature& signature, const LoadOptions& load) {
  const analysis::File& file = *signature.later_step();
  const onnx::Graph& graph = *file.model->graph;
  const bool quantised = load.weights == Weights::kQ8 || load.weights == Weights::kQ4 || load.kv == KvStorage::kQ8;
  if (quantised || quantises_activations(graph)) return 0.25;
  const bool halved = load.weights == Weights::kF16 || load.kv == KvStorage::kF16;
  return halved || computes_in_half(graph) || keeps_in_half(file) ? 0.02 : 1e-3;
}

void print_law(const engine::LawResult& law, const Terminal& terminal) {
  const char* green = terminal.color ? "\033[32m" : "";
  const char* red = terminal.color ? "\033[31m" : "";
  const char* plain = terminal.color ? "\033[0m" : "";
  const std::string how =
      law.exact ? "equal bits" : fmt::format("differs by {:.2g} ({:.2g} of the spread)", law.max_difference, law.relative_difference);
  const char* verdict = law.information ? "info" : law.holds ? "holds" : "FAILS";
  print_result("{}{:<7}{} {:<28} {:>4} cases  {}\n", law.holds ? green : red, verdict, plain, law.name, law.cases, how);
  if (!law.holds) print_result("        {}\n", law.detail);
  flush_output();
}

// The model once more with other options; null, and a warning with the reason, where that cannot be.
std::shared_ptr<backend::Backend> open_again(const Model& model, const LoadOptions& load, const Log& log) {
  try {
    return api::open_backend(model.state()->signature, load, api::read_environment(), log);
  } catch (const Error& e) { log.warning(fmt::format("nothing to compare with: {}", e.what())); }
  return nullptr;
}

// A backend that promises equal bits keeps its word for any number of threads and any instruction set, as far as all of it is its own.
std::vector<engine::Peer> exact_peers(const Model& model, const LoadOptions& load, double tolerance, const Log& log) {
  LoadOptions threads = load, scalar = load;
  threads.threads = load.threads == 1 ? 2 : 1;
  scalar.isa = "scalar";
  if (model.state()->traits().exact_sources) tolerance = 0;
  return {{"one thread = many", open_again(model, threads, log), tolerance},
          {"scalar = vectors", open_again(model, scalar, log), tolerance}};
}

// Some files open in a runtime that then refuses to run them.
bool runs(const std::shared_ptr<backend::Backend>& backend, const Log& log) {
  if (backend == nullptr) return false;
  const backend::Traits& traits = backend->traits();
  if (traits.needs_source || traits.vocab <= 0) return true;
  try {
    const std::vector<TokenId> tokens = synthetic_prompt(traits.vocab, 1);
    return engine::Sequence(backend, 0).append(tokens) == AppendStatus::kDone;
  } catch (const Error& e) { log.warning(fmt::format("nothing to compare with: {}", e.what())); }
  return false;
}

bool quantizes_across_rows(const analysis::Signature& signature) {
  return std::any_of(signature.files.begin(), signature.files.end(), [](const analysis::File& file) { return file.quantizes_across_rows; });
}

engine::Peer other_backend(const Model& model, LoadOptions load, double tolerance, const Log& log) {
  // An exact backend quantizes each row by itself; a whole graph does so only if it runs one row at a time.
  const bool row_by_row = model.state()->traits().exact && quantizes_across_rows(model.state()->signature);
  const bool takes_reference = row_by_row || model.backend() == "ort";
  for (const BackendChoice choice : {takes_reference ? BackendChoice::kReference : BackendChoice::kOrt, BackendChoice::kReference}) {
    if (choice == BackendChoice::kReference && model.backend() == "reference") break;
    load.backend = choice;
    load.weights = Weights::kAuto, load.kv = KvStorage::kAuto, load.isa = "auto";
    if (std::shared_ptr<backend::Backend> other = open_again(model, load, log); runs(other, log)) {
      const std::string name = fmt::format("{} = {}", model.backend(), other->traits().name);
      return {name, std::move(other), tolerance, row_by_row};
    }
  }
  return {};
}

std::vector<engine::Peer> peers_of(const VerifyCommand& options, const Model& model, double tolerance, const Log& log) {
  std::vector<engine::Peer> peers;
  if (options.against == "none") return peers;
  LoadOptions load = options.model.load;
  if (model.state()->traits().exact) peers = exact_peers(model, load, tolerance, log);
  peers.push_back(other_backend(model, load, tolerance, log));
  std::erase_if(peers, [](const engine::Peer& peer) { return peer.backend == nullptr; });
  return peers;
}

// What both kinds of model are asked with.
struct Terms {
  double tolerance = 0;  // between two ways through one backend
  std::vector<engine::Peer> peers;
  engine::LawBook::Report report;
};

Terms terms_for(const VerifyCommand& options, const Model& model, const Terminal& terminal) {
  const auto& state = *model.state();
  Terms terms;
  const double honest = options.tolerance > 0 ? options.tolerance : honest_tolerance(state.signature, options.model.load);
  terms.tolerance = state.traits().exact ? 0 : honest;
  terms.peers = peers_of(options, model, honest, terminal.log());
  if (!terminal.json) terms.report = [&](const engine::LawResult& law) { print_law(law, terminal); };
  return terms;
}

void say_terms(const Model& model, const Terms& terms, const std::string& what, const Terminal& terminal) {
  if (terminal.json) return;
  print_result(
      "{} on {}, {}; {}\n", model.backend(), model.device(), what,
      terms.tolerance == 0 ? "equal bits are demanded" : fmt::format("logits may differ by {:.3g} of their spread", terms.tolerance));
  if (quantizes_across_rows(model.state()->signature))
    print_result(
        "the file quantizes activations with one scale per run, so its logits depend on the batch: rows are compared one by one\n");
  flush_output();
}

std::vector<TokenId> wanted_ids(const VerifyCommand& options, const Model& model) {
  if (!options.ids.empty()) return parse_ids(options.ids);
  if (!options.prompt.empty()) return model.tokenize(options.prompt);
  return {};
}

// A file that quantises its activations over all rows of a run moves a row by the company it is in; twice that is granted, as long as
// a broken mask would still be seen.
double tolerance_in_company(const VerifyCommand& options, const Model& model, const Terms& terms, std::span<const TokenId> prompt) {
  const auto& state = *model.state();
  const bool asks = terms.tolerance > 0 && options.tolerance == 0 && quantises_activations(*state.signature.later_step()->model->graph);
  if (!asks) return terms.tolerance;
  return std::clamp(2 * engine::moved_by_company(state.decoder->shared_backend(), prompt), terms.tolerance, kMostInCompany);
}

std::vector<engine::LawResult> verify_decoder(const VerifyCommand& options, const Model& model, Terms& terms, const Terminal& terminal) {
  engine::VerifyOptions laws;
  laws.context = options.model.load.context;
  laws.prompt = wanted_ids(options, model);
  if (laws.prompt.empty()) laws.prompt = synthetic_prompt(model.vocab_size(), model.max_positions());
  laws.tolerance = terms.tolerance = tolerance_in_company(options, model, terms, laws.prompt);
  laws.peers = terms.peers;
  laws.report = terms.report;
  say_terms(model, terms, fmt::format("{} tokens", laws.prompt.size()), terminal);
  return engine::verify_decoder(model.state()->decoder->shared_backend(), laws);
}

Tensor as_source(std::span<const TokenId> ids) {
  return Tensor::of({static_cast<int64_t>(ids.size())}, std::vector<int64_t>(ids.begin(), ids.end()));
}

std::vector<Tensor> sources_of(const analysis::Port& port, const std::filesystem::path& folder, const std::string& features) {
  std::vector<Tensor> read;
  if (!features.empty()) {
    for (const Features& source : read_features(features, static_cast<int>(port.dims.size()) - 1)) read.push_back(api::to_tensor(source));
    return read;
  }
  return {synthetic_features(port, folder, 0), synthetic_features(port, folder, 1), synthetic_features(port, folder, 2)};
}

// Three sources; of unequal length where they are texts.
std::vector<Tensor> synthetic_sources(const VerifyCommand& options, const Model& model) {
  const auto& state = *model.state();
  const analysis::File* encoder = state.signature.encoder();
  for (const analysis::Role role : {analysis::Role::kAudioFeatures, analysis::Role::kPixelValues}) {
    const analysis::Port* port = encoder != nullptr ? encoder->input_of(role) : nullptr;
    if (port != nullptr) return sources_of(*port, state.signature.folder, options.features);
  }
  std::vector<TokenId> ids = wanted_ids(options, model);
  if (ids.size() < 2) ids = synthetic_prompt(model.vocab_size(), state.traits().max_source_positions);
  const std::vector<TokenId> reversed(ids.rbegin(), ids.rend());
  return {as_source(ids), as_source(std::span(ids).first(std::max<size_t>(1, ids.size() / 3))), as_source(reversed)};
}

std::vector<engine::LawResult> verify_translator(const VerifyCommand& options, const Model& model, Terms& terms, const Terminal& terminal) {
  const auto& state = *model.state();
  engine::VerifyTranslatorOptions laws;
  laws.sources = synthetic_sources(options, model);
  laws.start = {state.config.decoder_start.value_or(0)};
  laws.target = synthetic_prompt(model.vocab_size(), model.max_positions() > 2 ? std::min(8, model.max_positions() - 1) : 8);
  laws.sampler = std::make_shared<sample::Sampler>(
      state.config.sampling,
      sample::TokenRules{static_cast<size_t>(model.vocab_size()), state.config.eos, state.traits().unsupported_tokens});
  const int most = model.max_positions() > 0 ? std::min(24, model.max_positions()) : 24;
  laws.beams = {.num_beams = 4, .max_length = static_cast<size_t>(most), .eos_token_id = state.config.eos};
  laws.tolerance = terms.tolerance;
  laws.peers = terms.peers;
  laws.report = terms.report;
  say_terms(model, terms, fmt::format("{} sources, {} tokens of target", laws.sources.size(), laws.target.size()), terminal);
  return engine::verify_translator(state.decoder->shared_backend(), laws);
}

int verify(const VerifyCommand& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  Terms terms = terms_for(options, model, terminal);
  const bool translates = model.state()->traits().needs_source;
  const std::vector<engine::LawResult> results = (translates ? verify_translator : verify_decoder)(options, model, terms, terminal);
  bool all = true;
  Json list = Json::array();
  for (const engine::LawResult& law : results) {
    all = all && law.holds;
    Json entry = {{"name", law.name},
                  {"cases", law.cases},
                  {"holds", law.holds},
                  {"exact", law.exact},
                  {"information", law.information},
                  {"max_difference", law.max_difference},
                  {"relative_difference", law.relative_difference}};
    if (!law.detail.empty()) entry["detail"] = law.detail;
    list.push_back(std::move(entry));
  }
  if (terminal.json) print_result("{}\n", Json{{"backend", model.backend()}, {"tolerance", terms.tolerance}, {"laws", list}}.dump());
  return all ? 0 : 1;
}

}  // namespace

void add_verify(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("verify", "Prove or refute on a model that its cache is right, law by law");
  auto options = std::make_shared<VerifyCommand>();
  add_model_options(*command, options->model, commands.terminal);
  command
      ->add_option("PROMPT", options->prompt,
                   "The text (of a translator: the source) to prove it on; ids all over the vocabulary without one")
      ->option_text(" ");
  command->add_option("--ids", options->ids, "Token ids instead of text: 1,2,3")->option_text("IDS");
  command
      ->add_option("--features", options->features,
                   "For encoders of sound or pixels: an array of features, batch axis or not; made up without")
      ->option_text("FILE.npy");
  command
      ->add_option("--against", options->against, "Other ways to open it that must agree (backend, threads, instruction set): auto or none")
      ->check(CLI::IsMember({"auto", "none"}))
      ->option_text("auto|none");
  command->add_option("--tolerance", options->tolerance, "How much logits may differ, as a share of their spread")
      ->check(greater_than_zero())
      ->option_text("X");
  command->callback([=] { commands.run = [=] { return verify(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
