#include "engine/sequence.h"

#include <algorithm>
#include <fmt/format.h>

#include "engine/decoder.h"
#include "kvik/error.h"

namespace kvik::engine {
namespace {

int smaller_limit(int a, int b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

// Hands every row to a function.
class SeeRows final : public Strategy {
 public:
  SeeRows(int first, const Sequence::See& see) : first_(first), see_(see) {}
  bool wants_every_row() const override { return true; }
  void see(int position, std::span<const float> logits) override { see_(position - first_, logits); }
  std::span<const sample::Continuation> advance(std::span<const Sequence>, Workers&) override { return {}; }

 private:
  int first_;
  const Sequence::See& see_;
};

// Lends a sequence to a stream while `work` runs.
template <typename Work>
auto as_stream(Sequence& sequence, std::unique_ptr<Strategy> strategy, const Work& work) {
  Stream stream(std::move(sequence), std::move(strategy));
  struct Return {
    Sequence& from;
    Sequence& to;
    ~Return() { to = std::move(from); }
  } const give_back{stream.branches.front(), sequence};
  return work(stream);
}

}  // namespace

Sequence::Sequence(std::shared_ptr<Decoder> decoder, int context, std::shared_ptr<const backend::Source> source)
    : decoder_(std::move(decoder)),
      source_(std::move(source)),
      cache_(backend().new_cache(source_)),
      capacity_(smaller_limit(context, backend().traits().max_positions)) {}

Sequence::Sequence(std::shared_ptr<backend::Backend> backend, int context, std::shared_ptr<const backend::Source> source)
    : Sequence(std::make_shared<Decoder>(std::move(backend)), context, std::move(source)) {}

backend::Backend& Sequence::backend() const { return decoder_->backend(); }

AppendStatus Sequence::append(std::span<const TokenId> tokens, const Watch& watch) {
  return as_stream(*this, nullptr, [&, decoder = decoder_](Stream& stream) { return decoder->append(stream, tokens, watch); });
}

AppendStatus Sequence::append_and_see(std::span<const TokenId> tokens, const See& see, const Watch& watch) {
  return as_stream(*this, std::make_unique<SeeRows>(length(), see),
                   [&, decoder = decoder_](Stream& stream) { return decoder->append(stream, tokens, watch); });
}

AppendStatus Sequence::append_each(std::span<Sequence* const> sequences, std::span<const TokenId> tokens) {
  if (sequences.empty()) return AppendStatus::kDone;
  const std::shared_ptr<Decoder> decoder = sequences.front()->decoder_;
  std::vector<Stream> streams;
  std::vector<Stream*> pointers;
  streams.reserve(sequences.size());
  for (Sequence* sequence : sequences) pointers.push_back(&streams.emplace_back(std::move(*sequence), nullptr));
  const auto give_back = [&] {
    for (size_t i = 0; i < sequences.size(); ++i) *sequences[i] = std::move(streams[i].branches.front());
  };
  try {
    const AppendStatus status = decoder->append_each(pointers, tokens);
    give_back();
    return status;
  } catch (...) {
    give_back();
    throw;
  }
}

std::span<const float> Sequence::logits() {
  if (tokens_.empty()) throw Error(Code::kBadArgument, "there are no logits yet: append at least one token first");
  if (!logits_) {
    drop_pending();
    need_logits();
    if (compute_pending() != AppendStatus::kDone) {
      drop_pending();
      throw decoder_->no_memory();
    }
  }
  return logits_.values();
}

void Sequence::need_logits() {
  if (logits_ || n_pending() > 0 || tokens_.empty()) return;
  std::unique_ptr<backend::Cache> cache = backend().fork(*cache_);
  backend().rewind(*cache, length() - 1);
  next_cache_ = std::move(cache);
}

bool Sequence::must_restart() const {
  return n_pending() > 0 && !backend().can_continue(running_cache(), static_cast<int>(tokens_.size()));
}

void Sequence::keep_until_computed() {
  drop_ahead();
  if (next_cache_ == nullptr) next_cache_ = backend().fork(*cache_);
}

void Sequence::undo(int length, LogitsRow logits) {
  drop_pending();
  if (length < this->length()) backend().rewind(*cache_, length);
  drop_pending();
  logits_ = std::move(logits);
}

size_t Sequence::room_ahead() const {
  if (next_cache_ != nullptr || n_pending() != 1 || must_restart()) return 0;
  size_t most = SIZE_MAX;
  if (capacity_ > 0) most = static_cast<size_t>(capacity_);
  const auto switch_after = static_cast<size_t>(backend().traits().switch_after);
  if (switch_after > 0 && tokens_.size() <= switch_after) most = std::min(most, switch_after);
  return most - std::min(most, tokens_.size());
}

void Sequence::commit_ahead(std::span<const TokenId> tokens, const LogitsBuffer::Ref& logits, int first_row) {
  ahead_.tokens.assign(tokens.begin(), tokens.end());
  ahead_.first = 0;
  ahead_.logits = logits;
  ahead_.first_row = first_row;
}

void Sequence::reserve_ahead(size_t n_tokens) {
  ahead_.tokens.reserve(n_tokens);
  ahead_.other.reserve(n_tokens);
  if (ahead_.other_cache != nullptr || !backend().traits().can_branch) return;
  for (int i = 0; i < 2; ++i) fork_for_other();  // the first is as small as can be, the second one has room to grow
  drop_other();
}

backend::Cache& Sequence::fork_for_other() {
  backend().fork_into(*cache_, ahead_.other_cache);
  return *ahead_.other_cache;
}

void Sequence::commit_other(size_t branch, std::span<const TokenId> tokens, int first_row) {
  ahead_.other.assign(tokens.begin(), tokens.end());
  ahead_.branch = branch;
  ahead_.other_row = first_row;
}

void Sequence::drop_other() {
  ahead_.other.clear();
  if (ahead_.other_cache != nullptr) backend().rewind(*ahead_.other_cache, 0);  // releases its pages
}

bool Sequence::branch_ahead() {
  if (ahead_.other.empty() || ahead_.first != ahead_.branch || n_pending() != 1 || pending().front() != ahead_.other.front()) return false;
  std::swap(cache_, ahead_.other_cache);
  std::swap(ahead_.tokens, ahead_.other);
  ahead_.first = 0;
  ahead_.first_row = ahead_.other_row;
  drop_other();
  return true;
}

void Sequence::accept_ahead() {
  logits_ = LogitsRow(ahead_.logits, ahead_.first_row + static_cast<int>(ahead_.first));
  if (++ahead_.first > ahead_.branch && !ahead_.other.empty()) drop_other();
  if (n_ahead() == 0) drop_ahead();
  share_prefix(false);
}

void Sequence::drop_ahead() {
  if (n_ahead() > 0) backend().rewind(*cache_, length());
  ahead_.tokens.clear();
  ahead_.first = 0;
  ahead_.logits = {};
  drop_other();
}

void Sequence::commit(LogitsRow logits) {
  if (next_cache_ != nullptr) {
    if (n_pending() > 0) return;
    cache_ = std::move(next_cache_);
  }
  logits_ = std::move(logits);
  share_prefix(false);
}

int Sequence::use_known_prefix() {
  drop_ahead();
  if (!reuses_prefixes_ || n_pending() < 2) return 0;
  const int n_held = running_cache().length();
  std::unique_ptr<backend::Cache> found = backend().find_prefix(tokens_.view().first(tokens_.size() - 1), static_cast<int>(tokens_.size()));
  if (found == nullptr || found->length() <= n_held) return 0;
  next_cache_ = std::move(found);
  return next_cache_->length() - n_held;
}

void Sequence::share_prefix(bool whole) {
  if (whole) drop_ahead();  // the last page is shared as it is
  if (reuses_prefixes_) backend().share_prefix(*cache_, tokens_.view().first(static_cast<size_t>(length())), whole);
}

void Sequence::adopt(std::unique_ptr<backend::Cache>& cache, std::span<const TokenId> tokens, LogitsRow logits) {
  drop_pending();
  std::swap(cache_, cache);
  for (const TokenId token : tokens) push(token);
  logits_ = std::move(logits);
  share_prefix(false);
}

AppendStatus Sequence::make_continuable() {
  drop_ahead();
  if (backend().can_continue(*cache_, length())) return AppendStatus::kDone;
  Sequence recomputed = fork();
  recomputed.drop_pending();
  recomputed.restart();
  const AppendStatus status = recomputed.compute_pending();
  if (status == AppendStatus::kDone) cache_ = std::move(recomputed.cache_);
  return status;
}

std::vector<Tensor> Sequence::contents() {
  if (make_continuable() != AppendStatus::kDone) throw decoder_->no_memory();
  return backend().contents(*cache_);
}

AppendStatus Sequence::compute_pending() {
  return as_stream(*this, nullptr, [decoder = decoder_](Stream& stream) { return decoder->compute(stream); });
}

Sequence Sequence::fork() const {
  Sequence copy(decoder_, capacity_, source_);
  copy.cache_ = backend().fork(*cache_);
  if (n_ahead() > 0) backend().rewind(*copy.cache_, length());
  copy.tokens_ = tokens_;
  copy.logits_ = logits_;
  copy.reuses_prefixes_ = reuses_prefixes_;
  return copy;
}

Sequence Sequence::restored(const std::shared_ptr<Decoder>& decoder, int context, std::span<const TokenId> tokens,
                            std::span<const Tensor> contents, std::span<const float> logits) {
  Sequence sequence(decoder, context);
  const int vocab = decoder->backend().traits().vocab;
  if (!sequence.has_room_for(tokens.size()))
    throw Error(Code::kTooLarge, fmt::format("the saved sequence has {} tokens; the context holds {}", tokens.size(), sequence.capacity_));
  const bool in_vocabulary = std::all_of(tokens.begin(), tokens.end(), [&](TokenId token) { return token >= 0 && token < vocab; });
  const bool fits = in_vocabulary && (logits.empty() || (logits.size() == static_cast<size_t>(vocab) && !tokens.empty()));
  if (!fits) throw Error(Code::kBadArgument, fmt::format("the saved tokens or logits do not fit a vocabulary of {}", vocab));
  sequence.cache_ = decoder->backend().restore(tokens, contents);
  sequence.tokens_.reserve(tokens.size());
  for (const TokenId token : tokens) sequence.push(token);
  if (logits.empty()) return sequence;
  const LogitsBuffer::Ref buffer = LogitsBuffer::make();
  buffer.logits().resize(1, vocab);
  std::copy(logits.begin(), logits.end(), buffer.logits().writable_row(0).begin());
  sequence.logits_ = LogitsRow(buffer, 0);
  return sequence;
}

void Sequence::rewind(int length) {
  drop_pending();
  if (length == this->length()) return;
  share_prefix(true);
  truncate(length);
}

void Sequence::truncate(int length) {
  drop_pending();
  if (length == this->length()) return;
  if (length == 0) {
    cache_ = backend().new_cache(source_);  // a sequence that cannot be rewound can still be reset
  } else {
    backend().rewind(*cache_, length);
  }
  drop_pending();
  logits_ = {};
}

void Sequence::restart() {
  drop_ahead();
  next_cache_ = backend().new_cache(source_, static_cast<int>(tokens_.size()));
}

void Sequence::release() {
  share_prefix(true);  // cached until the memory is needed
  next_cache_ = nullptr;
  cache_ = backend().new_cache(source_, static_cast<int>(tokens_.size()));
  logits_ = {};
}

void Sequence::reserve(size_t n_tokens) {
  constexpr size_t kMost = size_t{1} << 20;  // more are reserved as they come
  // One more than the context: the last token chosen is not computed.
  if (capacity_ > 0) n_tokens = std::min(n_tokens, static_cast<size_t>(capacity_) + 1);
  tokens_.reserve(std::min(n_tokens, kMost));
}

}  // namespace kvik::engine
