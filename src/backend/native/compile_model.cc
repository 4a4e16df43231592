#include <fmt/format.h>
#include <optional>

#include "backend/native/compile.h"
#include "backend/native/refusal.h"

// Which graph of a model defines it, and what is tried when that one is no program over rows.
namespace kvik::native {
namespace {

using analysis::File;
using analysis::Signature;
using analysis::Stage;
using analysis::State;

struct Candidate {
  const File* file = nullptr;
  CompileOptions options;
};

bool has_state(const File& file, bool (*matches)(const State&)) {
  for (const State& state : file.states) {
    if (state.input >= 0 && matches(state)) return true;
  }
  return false;
}

bool reads_past(const File& file) {
  return has_state(file, [](const State& state) { return !state.cross; });
}
bool is_recurrent(const File& file) {
  return has_state(file, [](const State& state) { return state.growth == analysis::Growth::kRecurrent; });
}

// The graph without a past alone says what a model is: a prompt at once, with its mask. Token by token is right only for a model whose
// rows follow from each other anyway.
std::vector<Candidate> candidates(const Signature& signature, int64_t context) {
  std::vector<Candidate> without_past, with_past, one_token;
  for (const File& file : signature.files) {
    const bool merged = file.stage == Stage::kDecoderMerged;
    if (!merged && file.stage != Stage::kDecoder && file.stage != Stage::kDecoderWithPast) continue;
    const bool past = reads_past(file);
    if (merged || !past) without_past.push_back({&file, {.cached_branch = false, .context = context}});
    if (past) with_past.push_back({&file, {.cached_branch = merged, .context = context}});
    if (past && is_recurrent(file)) one_token.push_back({&file, {.cached_branch = merged, .one_token = true, .context = context}});
  }
  std::vector<Candidate> all = std::move(without_past);
  all.insert(all.end(), with_past.begin(), with_past.end());
  all.insert(all.end(), one_token.begin(), one_token.end());
  return all;
}

}  // namespace

Program compile_decoder(const Signature& signature, int64_t context) {
  if (context == 0) context = signature.max_positions.value_or(0);
  std::optional<Refusal> first;
  for (const Candidate& candidate : candidates(signature, context)) {
    try {
      Program program = compile_file(*candidate.file, candidate.options);
      if (program.one_token) program.notes.push_back("only token by token: a state goes from each row to the next");
      return program;
    } catch (const Refusal& refusal) {
      if (!first) first = Refusal(fmt::format("{}: {}", candidate.file->path.filename().string(), refusal.what()));
    }
  }
  throw first ? *first : Refusal(fmt::format("{}: no file is a decoder", signature.folder.string()));
}

Program compile_encoder(const Signature& signature) {
  const File* file = signature.encoder();
  if (file == nullptr) file = signature.file_of(Stage::kEncoder);
  if (file == nullptr) throw Refusal(fmt::format("{}: no file is an encoder", signature.folder.string()));
  return compile_file(*file, {.context = file->position_rows.value_or(signature.max_positions.value_or(0))});
}

}  // namespace kvik::native
