#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "backend/native/attention/probe_mask.h"
#include "backend/native/compile.h"

// Which graph of a model defines it, and what is tried if that one is not a program over rows.
namespace kvik::native {
namespace {

using analysis::File;
using analysis::Signature;
using analysis::Stage;
using analysis::State;

struct Candidate {
  const File* file = nullptr;
  CompileOptions options;
  bool has_past = false;
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

// Every probe of a buffer of fixed size sees it full, so that one token is always the last one: that would prove nothing.
bool has_buffer(const File& file) {
  return has_state(file, [](const State& state) { return state.growth == analysis::Growth::kFixed && !state.cross; });
}

// Of its tokens, [batch, new]; tokens [new] are of one sequence.
bool declares_one(const File& file, size_t axis) {
  const analysis::Port* tokens = file.input_of(analysis::Role::kTokenIds);
  if (tokens == nullptr || !tokens->has_shape) return false;
  if (tokens->dims.size() == 1) return axis == 0 || tokens->dims[0].value == 1;
  return tokens->dims.size() == 2 && tokens->dims[axis].value == 1;
}

// An input may have a position for each new token, or only the first one's.
bool has_unclear_count(const File& file) {
  return std::ranges::any_of(file.inputs, [](const analysis::Port& port) { return port.unclear_count; });
}

// Only the graph without a past fully defines a model: a whole prompt with its mask. Token by token is right only for a model whose rows
// follow from each other anyway, and for a file that takes no more.
std::vector<Candidate> candidates(const Signature& signature, const DecoderOptions& options) {
  const int64_t context = options.context;
  std::vector<Candidate> without_past, with_past, cut_buffer, one_sequence, one_token;
  for (const File& file : signature.files) {
    const bool merged = file.stage == Stage::kDecoderMerged;
    if (!merged && file.stage != Stage::kDecoder && file.stage != Stage::kDecoderWithPast) continue;
    const bool past = reads_past(file);
    if (merged || !past) without_past.push_back({&file, {.cached_branch = false, .context = context}});
    if (past) with_past.push_back({&file, {.cached_branch = merged, .context = context}, true});
    if (past && has_buffer(file)) cut_buffer.push_back({&file, {.cached_branch = merged, .cut_buffer = true, .context = context}, true});
    if (declares_one(file, 0)) one_sequence.push_back({&file, {.cached_branch = merged, .one_sequence = true, .context = context}, past});
    if (past && !has_buffer(file) && (is_recurrent(file) || declares_one(file, 1)))
      one_token.push_back({&file, {.cached_branch = merged, .one_token = true, .context = context}, true});
  }
  std::vector<Candidate> all = std::move(without_past);
  all.insert(all.end(), with_past.begin(), with_past.end());
  all.insert(all.end(), cut_buffer.begin(), cut_buffer.end());
  all.insert(all.end(), one_sequence.begin(), one_sequence.end());
  all.insert(all.end(), one_token.begin(), one_token.end());
  // Numbers that begin at the wrong position, or are too many, do not make a program over rows, so either count may be tried.
  const size_t n = all.size();
  for (size_t i = 0; i < n; ++i) {
    if (!has_unclear_count(*all[i].file)) continue;
    all.push_back(all[i]);
    all.back().options.one_position = true;
  }
  for (Candidate& candidate : all) candidate.options.beyond = options.beyond;
  return all;
}

// Rows that come later are not there yet when a row is generated.
std::optional<Refusal> check_causal(const Program& program) {
  for (const Attend& attend : program.attends) {
    if (!attend.causal && !attend.from_source) return Refusal{attend.node, "its rows see later rows"};
  }
  return std::nullopt;
}

bool near(float a, float b) { return a == b || std::abs(a - b) <= 1e-3f * (1 + std::abs(a)); }

// Both up to `limit` positions.
bool same_pattern(const Attend& a, const Attend& b, int64_t limit) {
  if (a.from_source != b.from_source || a.n_heads != b.n_heads || a.causal != b.causal) return false;
  if (a.score_roundings != b.score_roundings || a.weight_roundings != b.weight_roundings) return false;
  if (!near(a.scale, b.scale) || !near(a.soft_cap, b.soft_cap) || a.sinks.size() != b.sinks.size()) return false;
  for (size_t i = 0; i < a.sinks.size(); ++i) {
    if (!near(a.sinks[i], b.sinks[i])) return false;
  }
  for (int64_t h = 0; h < a.n_heads && !a.from_source; ++h) {
    for (int64_t d = 0; d < limit; ++d) {
      if (!near(bias_of(a, h, d), bias_of(b, h, d))) return false;
    }
  }
  return true;
}

// A graph without a past computes a mask for all rows of a context together, which is proved for as many as is worth the time. The one with
// a past, if it has the same patterns, defines longer contexts.
bool extend_patterns(Program& program, const Program& longer) {
  const int64_t proved = program.max_positions.value_or(0);
  if (longer.attends.size() != program.attends.size()) return false;
  for (size_t i = 0; i < longer.attends.size(); ++i) {
    if (!same_pattern(program.attends[i], longer.attends[i], proved)) return false;
  }
  for (size_t i = 0; i < longer.attends.size(); ++i) {
    const Attend& from = longer.attends[i];
    Attend& to = program.attends[i];
    to.window = from.window;
    to.slopes = from.slopes;
    to.distance_bias = from.distance_bias;
    to.first_distance = from.first_distance;
    to.words = from.words;
  }
  program.max_positions = longer.max_positions;
  program.notes.emplace_back("the graph with a past has the same mask patterns and defines how they continue");
  return true;
}

void look_farther(Program& program, const Candidate& other) {
  const Outcome<Program> longer = compile_file(*other.file, other.options);
  if (longer) extend_patterns(program, *longer);
  for (const PositionTable& table : program.tables) {
    if (table.limit > 0) program.max_positions = std::min(program.max_positions.value_or(table.limit), table.limit);
  }
}

Outcome<Program> compile_candidate(const Candidate& candidate) {
  Outcome<Program> program = compile_file(*candidate.file, candidate.options);
  if (!program) return program;
  if (std::optional<Refusal> refusal = check_causal(*program)) return *refusal;
  if (program->one_token && is_recurrent(*candidate.file))
    program->notes.emplace_back("only one token at a time: a state is passed from each row to the next");
  return program;
}

Refusal in_file(const File& file, Refusal refusal) {
  return {{}, fmt::format("{}: {}", file.path.filename().string(), refusal.sentence())};
}

}  // namespace

Outcome<Program> compile_decoder(const Signature& signature, const DecoderOptions& options) {
  DecoderOptions filled = options;
  if (filled.context == 0) filled.context = signature.max_positions.value_or(0);
  std::optional<Refusal> first;
  std::optional<Switch> first_switch;
  const std::vector<Candidate> all = candidates(signature, filled);
  const auto with_past = std::find_if(all.begin(), all.end(), [](const Candidate& one) { return one.has_past; });
  for (const Candidate& candidate : all) {
    Outcome<Program> program = compile_candidate(candidate);
    if (program) {
      const bool is_short =
          program->max_positions && (filled.context == 0 || *program->max_positions < std::min(filled.context, kMostPositions));
      if (is_short && !candidate.has_past && with_past != all.end()) look_farther(*program, *with_past);
      return program;
    }
    if (const Switch* change = program.length_switch(); change != nullptr && !first_switch)
      first_switch = Switch{change->length, in_file(*candidate.file, change->refusal)};
    if (const Refusal* refusal = program.refusal(); refusal != nullptr && !first) first = in_file(*candidate.file, *refusal);
  }
  if (first_switch) return *first_switch;
  return first.value_or(Refusal{{}, fmt::format("{}: no file is a decoder", signature.folder.string())});
}

Outcome<Program> compile_encoder(const Signature& signature) {
  const File* file = signature.encoder();
  if (file == nullptr) file = signature.file_of(Stage::kEncoder);
  if (file == nullptr) return Refusal{{}, fmt::format("{}: no file is an encoder", signature.folder.string())};
  return compile_file(*file, {.context = file->position_rows.value_or(signature.max_positions.value_or(0))});
}

}  // namespace kvik::native
