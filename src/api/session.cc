#include <random>

#include "api/state.h"
#include "kv/cache_file.h"
#include "sample/sampler.h"

namespace kvik {

Session::Session(std::shared_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session::State::State(std::shared_ptr<const Model::State> of, engine::Sequence sequence)
    : model(std::move(of)), stream(std::move(sequence), nullptr) {
  if (model->options.reuse_prefixes) this->sequence().reuse_prefixes();
  stream.n_candidates = 1;  // initially only the largest logit is read back from a device; the others are read on demand
}

// Later sessions can reuse what this one computed.
Session::State::~State() {
  try {
    sequence().share_prefix(true);
  } catch (...) {}
}

void Session::State::end_generation() {
  tree.clear();
  if (generation == nullptr) return;
  generation = nullptr;
  stream.strategy = nullptr;
  stream.speculation = nullptr;
  stream.finish.reset();
  stream.recompute = false;
  sequence().drop_pending();
  sequence().share_prefix(true);
}

AppendStatus Session::append(std::span<const TokenId> tokens) {
  state_->end_generation();
  return state_->model->decoder->append(state_->stream, tokens);
}

AppendStatus Session::append(std::span<const TokenId> tokens, const AppendOptions& options) {
  state_->end_generation();
  return state_->model->decoder->append(state_->stream, tokens, {options.progress, options.cancelled});
}

TreeLogits Session::append_tree(std::span<const TokenId> tokens, std::span<const int> parents) {
  state_->end_generation();
  TreeLogits result;
  result.status_ = state_->tree.compute(state_->sequence(), tokens, parents);
  result.tree_ = &state_->tree;
  return result;
}

int TreeLogits::size() const { return status_ == AppendStatus::kDone && tree_ != nullptr ? tree_->size() : 0; }

std::span<const float> TreeLogits::operator[](int node) const {
  engine::check_node(node, size());
  return tree_->logits(node);
}

void Session::keep(int node) { state_->tree.keep(node, state_->sequence()); }

std::span<const float> Session::logits() {
  if (!state_->sequence().logits_row()) state_->end_generation();
  state_->stream.n_candidates = 0;  // a caller that reads all logits is expected to do so again
  return state_->sequence().logits();
}

namespace {

// A pointer to the row that keeps its buffer.
std::shared_ptr<const float[]> shared(engine::LogitsRow row) {
  const auto kept = std::make_shared<engine::LogitsRow>(std::move(row));
  return {kept, kept->values().data()};
}

}  // namespace

std::shared_ptr<const float[]> Session::shared_logits() {
  logits();
  return shared(state_->sequence().logits_row());
}

std::shared_ptr<const float[]> Session::shared_logits(int node) const { return shared(state_->tree.logits_row(node)); }

const sample::Sampler& Session::State::sampler_for(const Sampling& wanted) {
  if (!sampling || !sample::are_equal(*sampling, wanted)) {
    sampling.reset();
    sampler.emplace(sample::merged(model->config.sampling, wanted),
                    sample::TokenRules{static_cast<size_t>(model->traits().vocab), model->config.eos, model->traits().unsupported_tokens});
    sampling = wanted;
  }
  return *sampler;
}

TokenId Session::sample(const Sampling& sampling) {
  const sample::Sampler& sampler = state_->sampler_for(sampling);
  // The same seed continues its random numbers; another one starts over.
  if (!state_->rng || (sampling.seed && sampling.seed != state_->seed)) {
    state_->seed = sampling.seed ? *sampling.seed : std::random_device()();
    state_->rng.emplace(*state_->seed);
  }
  engine::Sequence& sequence = state_->sequence();
  const auto history = [&] { return sample::History{sequence.tokens(), sequence.tokens().size(), 0}; };
  std::optional<TokenId> chosen = sampler.sample_candidates(sequence.known_candidates(), history(), *state_->rng, state_->workspace);
  if (!chosen) {
    const std::span<const float> logits = this->logits();
    chosen = sampler.sample(logits, history(), *state_->rng, state_->workspace);
  }
  state_->stream.n_candidates = sampler.n_candidates();  // of the token after this one
  return *chosen;
}

Session Session::fork() const {
  auto copy = std::make_shared<State>(state_->model, state_->sequence().fork());
  copy->sequence().drop_pending();
  copy->rng = state_->rng;
  copy->seed = state_->seed;
  return Session(std::move(copy));
}

void Session::rewind(int length) {
  state_->end_generation();
  state_->sequence().rewind(length);
}

void Session::save(const std::filesystem::path& file) const {
  engine::Sequence& sequence = state_->sequence();
  kv::SavedCache saved{.model = state_->model->identity(), .form = state_->model->traits().cache_form};
  saved.tokens.assign(sequence.tokens().begin(), sequence.tokens().end());
  saved.logits.assign(sequence.known_logits().begin(), sequence.known_logits().end());
  if (state_->rng) saved.random = {*state_->seed, state_->rng->position()};
  saved.contents = sequence.contents();
  kv::write_cache(file, saved);
}

int Session::length() const { return state_->sequence().length(); }
int Session::capacity() const { return state_->sequence().capacity(); }
std::span<const TokenId> Session::tokens() const { return state_->sequence().tokens(); }

Metrics metrics_of(const engine::Timing& timing) {
  return {.prefill_ms = timing.prefill_ms,
          .first_token_ms = timing.first_token_ms,
          .decode_ms = timing.decode_ms,
          .prompt_tokens = timing.n_prompt,
          .reused_tokens = timing.n_reused,
          .decode_tokens = timing.n_decoded,
          .generated_tokens = timing.n_generated,
          .decode_runs = timing.n_runs,
          .proposed_tokens = timing.n_proposed,
          .accepted_tokens = timing.n_accepted,
          .mask_ms = timing.mask_ms};
}

Metrics Session::metrics() const {
  Metrics metrics = metrics_of(state_->stream.timing);
  metrics.cache_bytes = state_->sequence().cache_bytes();
  return metrics;
}

}  // namespace kvik
