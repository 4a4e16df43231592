#include "support/models.h"

#include <algorithm>

#include "api/environment.h"
#include "backend/native/specialize/length_switch.h"
#include "backend/ort/ort_backend.h"
#include "backend/reference/reference_backend.h"
#include "kvik/error.h"

namespace kvik::testing_support {
namespace {

std::vector<TokenId> ids_of(const Json& json, const char* key) {
  const Json found = json.value(key, Json::array());
  if (found.is_number()) return {found.get<TokenId>()};
  return found.get<std::vector<TokenId>>();
}

KnownDecoder read(const std::filesystem::path& folder, const std::filesystem::path& answers) {
  const Json json = read_json_file(answers);
  KnownDecoder decoder{folder.filename().string(), folder, {}, json.value("source", "").starts_with("onnxruntime")};
  if (json.value("kind", "") != "decoder") return decoder;
  for (const Json& one : json.value("cases", Json::array())) {
    DecoderCase known{ids_of(one, "prompt_ids"), ids_of(one, "greedy_ids"), {}, {}};
    if (const auto sample = one.find("last_logits_sample"); sample != one.end()) {
      known.logit_indices = (*sample)["indices"].get<std::vector<int>>();
      known.logit_values = (*sample)["values"].get<std::vector<float>>();
    }
    decoder.cases.push_back(std::move(known));
  }
  return decoder;
}

void collect(const std::filesystem::path& below, std::vector<KnownDecoder>& decoders) {
  if (!std::filesystem::is_directory(below)) return;
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(below)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const std::filesystem::path& folder : folders) {
    for (const char* name : {"expected.json", "expect.json"}) {
      if (!std::filesystem::exists(folder / name)) continue;
      KnownDecoder decoder = read(folder, folder / name);
      if (!decoder.cases.empty()) decoders.push_back(std::move(decoder));
    }
  }
}

// Models that came without answers: those were made for them, and lie in the tree.
void collect_answered_here(const std::filesystem::path& below, std::vector<KnownDecoder>& decoders) {
  const std::filesystem::path answers = fixtures() / "models-expected";
  for (const char* name : {"tiny-llm", "tiny-llm-explicit-io", "tiny-llm-scatter", "tiny-llm-sharedbuffer", "tiny-random-gpt2"}) {
    decoders.push_back(read(below / name, answers / name / "expected.json"));
  }
}

}  // namespace

std::vector<KnownDecoder> known_decoders() {
  std::vector<KnownDecoder> decoders;
  collect(fixtures() / "zoo", decoders);
  collect(fixtures() / "forms", decoders);
  if (shared().empty()) return decoders;
  collect(shared() / "zoo", decoders);
  collect_answered_here(shared() / "fixtures" / "models", decoders);
  return decoders;
}

std::shared_ptr<backend::Backend> open_reference(const std::filesystem::path& folder) {
  const analysis::Signature signature = analysis::analyze(folder);
  return backend::make_reference_backend(signature, native::length_switch_of(signature));
}

std::shared_ptr<backend::Backend> open_native(const std::filesystem::path& folder, const backend::NativeOptions& options) {
  backend::NativeOptions complete = options;
  if (!complete.open_other) complete.open_other = backend::make_reference_executor;
  return backend::make_native_backend(analysis::analyze(folder), complete, {});
}

std::shared_ptr<backend::Backend> open_ort(const std::filesystem::path& folder) {
  const api::Environment environment = api::read_environment();
  backend::OrtOptions options;
  options.search = {environment.ort_library, environment.python_prefixes};
  options.n_threads = 1;
  try {
    const analysis::Signature signature = analysis::analyze(folder);
    options.switch_after = native::length_switch_of(signature);
    return backend::make_ort_backend(signature, options, {});
  } catch (const Error& e) {
    if (e.code() == Code::kIo) return nullptr;
    throw;
  }
}

}  // namespace kvik::testing_support
