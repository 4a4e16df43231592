#include "engine/sequence.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::engine {
namespace {

int smaller_limit(int a, int b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

Sequence::Sequence(std::shared_ptr<backend::Backend> backend, int context, std::shared_ptr<const backend::Source> source)
    : backend_(std::move(backend)),
      source_(std::move(source)),
      cache_(backend_->new_cache(source_)),
      capacity_(smaller_limit(context, backend_->traits().max_positions)) {}

Appended Sequence::append(std::span<const TokenId> tokens, const AppendWatch& watch) { return run_chunks(tokens, nullptr, watch); }

Appended Sequence::append_and_see(std::span<const TokenId> tokens, const std::function<void(int, std::span<const float>)>& see,
                                  const AppendWatch& watch) {
  return run_chunks(tokens, see, watch);
}

Appended Sequence::run_chunks(std::span<const TokenId> tokens, const std::function<void(int, std::span<const float>)>& see,
                              const AppendWatch& watch) {
  if (tokens.empty()) return Appended::kDone;
  const int n_tokens = static_cast<int>(tokens.size());
  const int start = length();
  if (capacity_ > 0 && n_tokens > capacity_ - start) return Appended::kContextFull;

  const int chunk = backend_->preferred_chunk();
  // With several chunks a later one may fail after an earlier one was kept, so they go to a copy that costs next to nothing.
  std::unique_ptr<backend::Cache> copy = n_tokens > chunk ? backend_->fork(*cache_) : nullptr;
  backend::Cache* const cache = copy != nullptr ? copy.get() : cache_.get();
  std::vector<backend::Row> rows;
  for (int done = 0; done < n_tokens; done += chunk) {
    if (watch.cancelled && watch.cancelled()) return Appended::kCancelled;
    const int n_rows = std::min(chunk, n_tokens - done);
    rows.clear();
    for (int i = 0; i < n_rows; ++i) {
      const int at = done + i;
      rows.push_back({tokens[static_cast<size_t>(at)], start + at, 0, see != nullptr || at + 1 == n_tokens});
    }
    backend_->run(rows, {&cache, 1}, buffer_);
    for (int i = 0; see != nullptr && i < n_rows; ++i) see(done + i, buffer_.row(i));
    if (watch.progress) watch.progress(done + n_rows, n_tokens);
  }
  if (copy != nullptr) cache_ = std::move(copy);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const std::span<const float> last = buffer_.row(buffer_.n_rows() - 1);
  if (last_row_ == nullptr || last_row_.use_count() > 1) {
    last_row_ = std::make_shared<std::vector<float>>(last.begin(), last.end());
  } else {
    std::copy(last.begin(), last.end(), last_row_->begin());  // nobody else reads it
  }
  return Appended::kDone;
}

std::span<const float> Sequence::logits() {
  if (tokens_.empty()) throw Error(Code::kBadArgument, "there are no logits yet: append at least one token first");
  if (last_row_ == nullptr) {
    const TokenId last = tokens_.back();
    backend_->rewind(*cache_, length() - 1);
    tokens_.pop_back();
    append({&last, 1});
  }
  return *last_row_;
}

Sequence Sequence::fork() const {
  Sequence copy(backend_, capacity_, source_);
  copy.cache_ = backend_->fork(*cache_);
  copy.tokens_ = tokens_;
  copy.last_row_ = last_row_;
  return copy;
}

Sequence Sequence::restored(std::shared_ptr<backend::Backend> backend, int context, std::span<const TokenId> tokens,
                            std::span<const Tensor> contents, std::span<const float> logits) {
  Sequence sequence(std::move(backend), context);
  const int vocab = sequence.backend_->traits().vocab;
  if (sequence.capacity_ > 0 && tokens.size() > static_cast<size_t>(sequence.capacity_)) {
    throw Error(Code::kTooLarge, fmt::format("the saved sequence has {} tokens; the context holds {}", tokens.size(), sequence.capacity_));
  }
  const bool in_vocabulary = std::all_of(tokens.begin(), tokens.end(), [&](TokenId token) { return token >= 0 && token < vocab; });
  const bool fits = in_vocabulary && (logits.empty() || (logits.size() == static_cast<size_t>(vocab) && !tokens.empty()));
  if (!fits) throw Error(Code::kBadArgument, fmt::format("the saved tokens or logits do not fit a vocabulary of {}", vocab));
  sequence.cache_ = sequence.backend_->restore(tokens, contents);
  sequence.tokens_.assign(tokens.begin(), tokens.end());
  if (!logits.empty()) sequence.last_row_ = std::make_shared<std::vector<float>>(logits.begin(), logits.end());
  return sequence;
}

void Sequence::rewind(int length) {
  if (length == static_cast<int>(tokens_.size())) return;
  if (length == 0) {
    cache_ = backend_->new_cache(source_);  // what cannot be rewound can still begin again
  } else {
    backend_->rewind(*cache_, length);
  }
  tokens_.resize(static_cast<size_t>(length));
  last_row_ = nullptr;
}

Appended Sequence::append_each(std::span<Sequence* const> sequences, std::span<const TokenId> tokens) {
  if (sequences.size() != tokens.size())
    throw Error(Code::kBadArgument, fmt::format("{} sequences got {} tokens; one each was expected", sequences.size(), tokens.size()));
  if (sequences.empty()) return Appended::kDone;
  std::vector<backend::Row> rows;
  std::vector<backend::Cache*> caches;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& sequence = *sequences[i];
    if (sequence.backend_ != sequences.front()->backend_)
      throw Error(Code::kBadArgument, "sequences of different models cannot share a step");
    if (sequence.capacity_ > 0 && sequence.length() >= sequence.capacity_) return Appended::kContextFull;
    rows.push_back({tokens[i], sequence.length(), static_cast<int>(i), true});
    caches.push_back(sequence.cache_.get());
  }
  backend::Logits& logits = sequences.front()->buffer_;
  sequences.front()->backend_->run(rows, caches, logits);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const std::span<const float> row = logits.row(static_cast<int>(i));
    sequences[i]->tokens_.push_back(tokens[i]);
    sequences[i]->last_row_ = std::make_shared<std::vector<float>>(row.begin(), row.end());
  }
  return Appended::kDone;
}

}  // namespace kvik::engine
