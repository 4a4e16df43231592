#include "api/embedding_run.h"

#include <algorithm>
#include <fmt/format.h>

#include "analysis/fit.h"
#include "api/load.h"
#include "base/utf8.h"
#include "text/unicode/unicode.h"

namespace kvik {

std::vector<Embedding> Model::embed(std::span<const std::string> texts, const EmbedOptions& options) const {
  api::EmbeddingRun run(state_, options);
  for (const std::string& text : texts) run.add_text(text);
  return run.run();
}

std::vector<Embedding> Model::embed(std::span<const std::vector<TokenId>> texts, const EmbedOptions& options) const {
  api::EmbeddingRun run(state_, options);
  for (const std::vector<TokenId>& ids : texts) run.add_ids(ids);
  return run.run();
}

Embedding Model::embed(std::string_view text, const EmbedOptions& options) const {
  const std::string texts[] = {std::string(text)};
  return std::move(embed(texts, options).front());
}

std::vector<HiddenStates> Model::hidden_states(std::span<const std::vector<TokenId>> texts) const {
  api::EmbeddingRun run(state_, {.pooling = "mean", .prompt = "", .truncate = false});
  for (const std::vector<TokenId>& ids : texts) run.add_ids(ids);
  return run.run_hidden_states();
}

bool Model::can_embed() const { return state_->signature.embedder() != nullptr; }
bool Model::can_generate() const { return state_->traits().generates; }
int Model::embedding_size(const EmbedOptions& options) const { return api::EmbeddingRun(state_, options).size(); }
int Model::max_embedding_tokens() const { return api::most_tokens(*state_, api::default_embedder(*state_).traits()); }
std::vector<std::pair<std::string, std::string>> Model::embedding_prompts() const {
  return {state_->embedding.prompts.begin(), state_->embedding.prompts.end()};
}

std::shared_ptr<backend::Embedder> Model::State::embedder(bool pooled) const {
  if (signature.embedder() == nullptr)
    throw Error(Code::kUnsupported, fmt::format("{}: this model does not output hidden states for a text; export it for feature "
                                                "extraction, or export a decoder without its language-model head",
                                                signature.folder.string()));
  const std::lock_guard lock(embedders_mutex_);
  std::shared_ptr<backend::Embedder>& opened = embedders_[pooled ? 1 : 0];
  if (opened == nullptr) opened = api::open_embedder(signature, pooled, options, api::read_environment(), Log(options.log));
  return opened;
}

}  // namespace kvik

namespace kvik::api {
namespace {

bool has_hidden_states(const Model::State& state) {
  return state.signature.embedder() != nullptr && state.signature.embedder()->output_of(analysis::Role::kHiddenStates) != nullptr;
}

bool pools_itself(const Model::State& state) {
  return state.signature.embedder() != nullptr && state.signature.embedder()->output_of(analysis::Role::kSentenceEmbedding) != nullptr;
}

// From the model's files; empty: the graph pools.
std::vector<engine::Pooling> pooling_of(const Model::State& state, const EmbedOptions& options) {
  if (options.pooling == "graph") return {};
  if (!options.pooling.empty()) return engine::parse_pooling(options.pooling);
  if (!state.embedding.pooling.empty() && has_hidden_states(state)) return state.embedding.pooling;
  if (pools_itself(state)) return {};
  throw Error(Code::kBadArgument,
              fmt::format("{}: the model's files do not specify the pooling (1_Pooling/config.json); choose one (--pooling): cls, "
                          "mean, max, mean_sqrt_len, weightedmean or lasttoken{}",
                          state.signature.folder.string(),
                          state.signature.embedder()->output_of(analysis::Role::kPoolerOutput) != nullptr ? ", or graph" : ""));
}

// Without white space around it, as sentence-transformers reads texts.
std::string_view stripped(std::string_view text) {
  const auto is_space = [](std::string_view character) {
    const utf8::Step step = utf8::step(character);
    // Python also strips the four information separators.
    return step.valid && (text::unicode::is_white_space(step.code_point) || (step.code_point >= 0x1C && step.code_point <= 0x1F));
  };
  while (!text.empty() && is_space(text)) text.remove_prefix(utf8::step(text).size);
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && !utf8::begins_character(text[at])) --at;
    const std::string_view last = text.substr(at);
    if (!is_space(last) || utf8::step(last).size != last.size()) break;
    text.remove_suffix(last.size());
  }
  return text;
}

std::string lowered(std::string_view text) {
  const std::string valid = utf8::replaced(text);
  std::string lower;
  for (const char *at = valid.data(), *end = at + valid.size(); at < end;) text::unicode::append_lower(lower, utf8::next(at));
  return lower;
}

}  // namespace

void log_problems(const analysis::Signature& signature, const Log& log) {
  std::vector<std::string> expected;
  if (signature.only_embeds()) expected = analysis::generation_problems(signature);
  for (const std::string& problem : signature.problems) {
    if (std::ranges::find(expected, problem) == expected.end()) log.warning(problem);
  }
}

backend::Embedder& default_embedder(const Model::State& state) {
  const bool pooled = (state.embedding.pooling.empty() && pools_itself(state)) || !has_hidden_states(state);
  return *state.embedder(pooled);
}

int most_tokens(const Model::State& state, const backend::EmbedderTraits& traits) {
  int most = 0;
  for (const int limit : {state.embedding.max_tokens.value_or(0), traits.max_positions, state.options.context}) {
    if (limit > 0) most = most == 0 ? limit : std::min(most, limit);
  }
  return most;
}

EmbeddingRun::EmbeddingRun(std::shared_ptr<const Model::State> state, EmbedOptions options)
    : state_(std::move(state)), options_(std::move(options)) {
  if (state_->signature.embedder() == nullptr) state_->embedder(false);  // throws
  pooling_ = pooling_of(*state_, options_);
  if (!pooling_.empty() && !state_->embedding.refused.empty()) throw Error(Code::kUnsupported, state_->embedding.refused);
  embedder_ = state_->embedder(pooling_.empty());
  most_ = most_tokens(*state_, embedder_->traits());
  prompt_ = prompt_text();
  if (!state_->embedding.include_prompt && !prompt_.empty()) n_prompt_ = count_prompt();
  if (options_.dimensions < 0 || options_.dimensions > full_size())
    throw Error(Code::kBadArgument,
                fmt::format("{} dimensions were requested; the model's vectors have {}", options_.dimensions, full_size()));
}

int EmbeddingRun::full_size() const {
  int64_t size = embedder_->traits().size;
  if (pooling_.empty()) return static_cast<int>(size);
  size *= static_cast<int64_t>(pooling_.size());
  for (const engine::VectorLayer& layer : state_->embedding.layers) {
    if (const auto* dense = std::get_if<engine::DenseLayer>(&layer)) size = dense->weight.dim(0);
  }
  return static_cast<int>(size);
}

bool EmbeddingRun::normalizes() const {
  if (options_.normalize) return *options_.normalize;
  if (pooling_.empty()) return false;
  return !state_->embedding.has_modules || state_->embedding.normalizes();
}

std::string EmbeddingRun::prompt_text() const {
  const engine::EmbeddingConfig& config = state_->embedding;
  const std::string name = options_.prompt.value_or(config.default_prompt);
  if (name.empty()) return {};
  if (const auto found = config.prompts.find(name); found != config.prompts.end()) return found->second;
  std::string names;
  for (const auto& [known, text] : config.prompts) names += (names.empty() ? "" : ", ") + known;
  throw Error(Code::kBadArgument, fmt::format("the model has no prompt named '{}'; its prompts: {}", name, names.empty() ? "none" : names));
}

// As many leading tokens as the prompt has by itself, without an end token.
int64_t EmbeddingRun::count_prompt() const {
  const std::vector<TokenId> ids = state_->tokenize(prompt_, {});
  const bool ends = !ids.empty() && state_->tokenizer->is_special(ids.back());
  return static_cast<int64_t>(ids.size()) - (ends ? 1 : 0);
}

void EmbeddingRun::add_text(std::string_view text) {
  std::string whole = prompt_ + std::string(text);
  whole = stripped(whole);
  if (state_->embedding.lower_case) whole = lowered(whole);
  add(cut(state_->tokenize(whole, {}), whole));
  has_prompt_.push_back(true);
}

void EmbeddingRun::add_ids(std::vector<TokenId> ids) {
  add(cut(std::move(ids), {}));
  has_prompt_.push_back(false);
}

// Of a text, its own tokens are cut; the special tokens around them stay.
std::vector<TokenId> EmbeddingRun::cut(std::vector<TokenId> ids, std::string_view text) const {
  const auto most = static_cast<size_t>(most_);
  if (most == 0 || ids.size() <= most) return ids;
  const size_t number = texts_.size() + 1;
  if (!options_.truncate)
    throw Error(Code::kTooLarge,
                fmt::format("text {} has {} tokens; the model accepts {}; to truncate it, omit --no-truncate (set truncate)", number,
                            ids.size(), most));
  Log(state_->options.log).warning(fmt::format("text {} had {} tokens and was truncated to {}", number, ids.size(), most));
  const std::vector<TokenId> body = text.empty() ? ids : state_->tokenize(text, {.add_special = false});
  const auto at = std::ranges::search(ids, body);
  const size_t n_special = ids.size() - body.size();
  if (at.empty() || body.size() > ids.size() || n_special >= most) {
    ids.resize(most);
    return ids;
  }
  const size_t n_cut = ids.size() - most;
  const auto first = at.begin() + (state_->embedding.cut_at_start ? 0 : static_cast<ptrdiff_t>(body.size() - n_cut));
  ids.erase(first, first + static_cast<ptrdiff_t>(n_cut));
  return ids;
}

void EmbeddingRun::add(std::vector<TokenId> ids) {
  const backend::EmbedderTraits& traits = embedder_->traits();
  const size_t number = texts_.size() + 1;
  if (ids.empty()) throw Error(Code::kBadArgument, fmt::format("text {} has no tokens; at least one was expected", number));
  for (const TokenId id : ids) {
    if (id < 0 || (traits.vocab > 0 && id >= traits.vocab))
      throw Error(Code::kBadArgument, fmt::format("token id {} of text {} is outside the vocabulary of {}", id, number, traits.vocab));
    if (std::ranges::find(traits.unsupported_tokens, id) != traits.unsupported_tokens.end())
      throw Error(Code::kUnsupported, fmt::format("token id {} of text {} is the graph's padding token and changes positions; the native "
                                                  "backend cannot run it; use --backend ort",
                                                  id, number));
  }
  texts_.push_back(std::move(ids));
}

std::vector<float> EmbeddingRun::vector_of(const Tensor& hidden, int64_t n_skipped) const {
  const std::span<const float> given = hidden.data<float>();
  std::vector<float> vector;
  if (pooling_.empty()) {
    vector.assign(given.begin(), given.end());
  } else {
    vector = engine::pool(hidden, pooling_, n_skipped);
    const std::vector<engine::VectorLayer>& layers = state_->embedding.layers;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (const auto* dense = std::get_if<engine::DenseLayer>(&layers[i])) {
        vector = engine::apply(*dense, vector);
      } else if (i + 1 < layers.size()) {  // the last one is an option
        engine::normalize(vector);
      }
    }
  }
  if (options_.dimensions > 0) vector.resize(static_cast<size_t>(options_.dimensions));
  if (normalizes()) engine::normalize(vector);
  return vector;
}

std::vector<Embedding> EmbeddingRun::run() {
  return result(!engine::complete(work(), state_->decoder, {.n_parts = SIZE_MAX, .cancelled = options_.cancelled}));
}

std::vector<HiddenStates> EmbeddingRun::run_hidden_states() {
  std::vector<HiddenStates> found(texts_.size());
  hidden_ = &found;
  run();
  return found;
}

engine::Work& EmbeddingRun::work() {
  results_.resize(texts_.size());
  return *this;
}

engine::Part EmbeddingRun::begin() {
  const size_t index = n_begun_++;
  return {.index = index, .text = texts_[index]};
}

void EmbeddingRun::embedded(const engine::Part& part, Tensor hidden) {
  if (hidden_ != nullptr) {
    const auto kept = std::make_shared<const Tensor>(std::move(hidden));
    (*hidden_)[part.index] = {static_cast<int>(kept->dim(0)), static_cast<int>(kept->dim(1)), {kept, kept->data<float>().data()}};
  } else {
    results_[part.index].values = vector_of(hidden, has_prompt_[part.index] ? n_prompt_ : 0);
    results_[part.index].tokens = static_cast<int>(part.text.size());
  }
  if (options_.progress) options_.progress(static_cast<int>(++n_done_), static_cast<int>(texts_.size()));
}

}  // namespace kvik::api
