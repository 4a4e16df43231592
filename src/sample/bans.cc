#include "sample/bans.h"

#include <algorithm>
#include <limits>
#include <map>

namespace kvik::sample {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

void ban_one(std::span<float> logits, TokenId id) {
  if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kBanned;
}

bool ends_with(std::span<const TokenId> tokens, std::span<const TokenId> ending) {
  return tokens.size() >= ending.size() && std::ranges::equal(tokens.last(ending.size()), ending);
}

// Whether a sequence applies: all but its last id end `tokens`. That one of more than one id must not be longer than `tokens` is how
// the reference implementation has it.
bool applies(std::span<const TokenId> sequence, std::span<const TokenId> tokens) {
  if (sequence.size() == 1) return true;
  return sequence.size() <= tokens.size() && ends_with(tokens, sequence.first(sequence.size() - 1));
}

}  // namespace

void ban(std::span<float> logits, std::span<const TokenId> ids) {
  for (const TokenId id : ids) ban_one(logits, id);
}

void force(std::span<float> logits, std::span<const TokenId> ids) {
  std::ranges::fill(logits, kBanned);
  for (const TokenId id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = 0.0f;
  }
}

void ban_repeated_ngrams(std::span<float> logits, std::span<const TokenId> tokens, size_t n) { ban_ngrams_of(tokens, logits, tokens, n); }

void ban_ngrams_of(std::span<const TokenId> source, std::span<float> logits, std::span<const TokenId> tokens, size_t n) {
  if (n == 0 || tokens.size() + 1 < n) return;
  const std::span<const TokenId> ending = tokens.last(n - 1);
  for (size_t last = n - 1; last < source.size(); ++last) {
    if (n > 1 && source[last - 1] != ending.back()) continue;
    if (std::ranges::equal(source.subspan(last - (n - 1), n - 1), ending)) ban_one(logits, source[last]);
  }
}

void ban_sequences(std::span<float> logits, std::span<const TokenId> tokens, std::span<const std::vector<TokenId>> sequences) {
  for (const std::vector<TokenId>& sequence : sequences) {
    if (!sequence.empty() && applies(sequence, tokens)) ban_one(logits, sequence.back());
  }
}

SequenceBiases::SequenceBiases(std::span<const SequenceBias> entries) {
  std::map<std::vector<TokenId>, size_t> places;
  for (const SequenceBias& entry : entries) {
    if (entry.ids.empty()) continue;
    const auto [place, is_new] = places.try_emplace(entry.ids, entries_.size());
    if (is_new) entries_.push_back(entry);
    entries_[place->second].bias = entry.bias;
  }
  std::ranges::stable_sort(entries_, [](const SequenceBias& a, const SequenceBias& b) {
    return std::pair(a.ids.back(), a.ids.size() > 1) < std::pair(b.ids.back(), b.ids.size() > 1);
  });
}

void SequenceBiases::apply(std::span<float> logits, std::span<const TokenId> tokens) const {
  for (size_t i = 0; i < entries_.size();) {
    const TokenId id = entries_[i].ids.back();
    float sum = 0.0f;
    for (; i < entries_.size() && entries_[i].ids.back() == id; ++i) {
      if (applies(entries_[i].ids, tokens)) sum += static_cast<float>(entries_[i].bias);
    }
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] += sum;
  }
}

}  // namespace kvik::sample
