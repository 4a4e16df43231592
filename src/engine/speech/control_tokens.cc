#include "engine/speech/control_tokens.h"

#include <algorithm>

namespace kvik::engine {
namespace {

constexpr std::string_view kOpen = "<|", kClose = "|>";
constexpr std::string_view kTasks[] = {"transcribe", "translate"};

// The text between <| and |>; empty without them.
std::string_view inside(std::string_view piece) {
  if (piece.size() <= kOpen.size() + kClose.size() || !piece.starts_with(kOpen) || !piece.ends_with(kClose)) return {};
  return piece.substr(kOpen.size(), piece.size() - kOpen.size() - kClose.size());
}

bool is_language(std::string_view name) {
  return (name.size() == 2 || name.size() == 3) && std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

bool is_time(std::string_view piece) {
  const std::string_view name = inside(piece);
  return name.find('.') != name.npos && std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

void complete_from_tokenizer(GenerationConfig& config, const text::Tokenizer& tokenizer) {
  if (!config.decoder_start) {
    const std::vector<TokenId> around = tokenizer.encode("");
    if (!around.empty() && tokenizer.is_special(around.front()) && around.front() != around.back()) config.decoder_start = around.front();
  }
  // Without this token the others may mean something else.
  const std::optional<TokenId> no_timestamps = tokenizer.id_of("<|notimestamps|>");
  if (!no_timestamps || config.no_timestamps || !config.languages.empty() || !config.tasks.empty()) return;
  config.no_timestamps = no_timestamps;
  config.speech_tokens_only_if_asked = config.has_own_file;
  for (const std::string_view task : kTasks) {
    if (const auto id = tokenizer.id_of(std::string(kOpen) + std::string(task) + std::string(kClose))) config.tasks.emplace_back(task, *id);
  }
  if (!config.decoder_start) return;
  // They follow the start; other tokens are as short elsewhere.
  for (TokenId id = *config.decoder_start + 1; is_language(inside(tokenizer.piece_of(id))); ++id)
    config.languages.emplace_back(std::string(tokenizer.piece_of(id)), id);
}

}  // namespace kvik::engine
