#include "api/translator.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kvik {

SampleOptions TranslateOptions::sampling() const { return sampling_of(*this); }

std::vector<Translation> Model::translate(std::span<const std::string> texts, const TranslateOptions& options) const {
  api::Translator translator(*this, options);
  std::vector<api::TranslationSource> sources;
  for (const std::string& text : texts) sources.push_back(translator.read_text(text));
  return translator.translate(std::move(sources));
}

std::vector<Translation> Model::translate(std::span<const std::vector<TokenId>> ids, const TranslateOptions& options) const {
  api::Translator translator(*this, options);
  std::vector<api::TranslationSource> sources;
  for (const std::vector<TokenId>& source : ids) sources.push_back(translator.read_ids(source));
  return translator.translate(std::move(sources));
}

Translation Model::translate(std::span<const TokenId> source, const TranslateOptions& options) const {
  const std::vector<TokenId> sources[] = {{source.begin(), source.end()}};
  return std::move(translate(sources, options).front());
}

Translation Model::translate(std::string_view text, const TranslateOptions& options) const {
  const std::string texts[] = {std::string(text)};
  return std::move(translate(texts, options).front());
}

}  // namespace kvik

namespace kvik::api {
namespace {

constexpr size_t kBatchesSorted = 16;
constexpr int kMostTextsPerBatch = 4096;

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

TranslateOptions checked(const Model& model, TranslateOptions options) {
  const ModelAccess::State& state = ModelAccess::state(model);
  if (!state.backend->traits().needs_source)
    throw Error(Code::kBadArgument, fmt::format("{}: this model does not translate: it has no encoder; generate (kvik run) continues texts",
                                                state.signature.folder.string()));
  if (options.batch < 1 || options.batch > kMostTextsPerBatch)
    throw Error(Code::kBadArgument, fmt::format("batch is {}; 1 to {} was expected", options.batch, kMostTextsPerBatch));
  if (options.language.empty()) return options;
  options.forced_bos_token_id = state.tokenizer != nullptr ? state.tokenizer->language_id(options.language) : std::nullopt;
  if (!options.forced_bos_token_id)
    throw Error(Code::kBadArgument, fmt::format("the model's tokenizer has no token for the language '{}'; write it as its files do "
                                                "(fr, fra_Latn …)",
                                                options.language));
  return options;
}

}  // namespace

Translator::Translator(const Model& model, TranslateOptions options)
    : model_(model),
      options_(checked(model, std::move(options))),
      state_(ModelAccess::state(model_)),
      target_(make_target(state_, options_)),
      sampler_(target_.sampling, static_cast<size_t>(model.vocab_size())) {
  if (target_.translate.search.start.empty())
    throw Error(Code::kBadModel,
                "the config files do not say what the decoder starts with; set decoder_start_token_id (--decoder-start-token-id)");
}

// What the encoder reads where that is no text; null for token ids.
const analysis::Port* Translator::feature_port() const {
  const analysis::File* encoder = state_.signature.encoder();
  if (encoder == nullptr) return nullptr;
  const analysis::Port* audio = encoder->input_of(analysis::Role::kAudioFeatures);
  return audio != nullptr ? audio : encoder->input_of(analysis::Role::kPixelValues);
}

void Translator::check_reads_text() const {
  const analysis::Port* port = feature_port();
  if (port == nullptr) return;
  throw Error(Code::kBadArgument,
              fmt::format("the encoder of this model reads '{}', not text; use transcribe (kvik transcribe) for sound, or features "
                          "(--features FILE.npy)",
                          port->name));
}

size_t Translator::feature_rank() const {
  const analysis::Port* port = feature_port();
  if (port == nullptr) throw Error(Code::kBadArgument, "the encoder of this model reads token ids, not features; give a text or ids");
  return port->dims.size();
}

TranslationSource Translator::read_text(std::string_view text) {
  check_reads_text();
  std::vector<TokenId> ids;
  if (!is_blank(text)) ids = state_.tokenize(text, {.language = options_.source_language});
  ++n_read_;
  fit(ids);
  return {std::move(ids), {}};
}

TranslationSource Translator::read_ids(std::vector<TokenId> ids) {
  check_reads_text();
  ++n_read_;
  if (ids.empty()) throw Error(Code::kBadArgument, fmt::format("source {} has no tokens; at least one was expected", n_read_));
  fit(ids);
  return {std::move(ids), {}};
}

TranslationSource Translator::read_features(Tensor features) {
  ++n_read_;
  return {{}, std::move(features)};
}

void Translator::fit(std::vector<TokenId>& source) const {
  const int limit = state_.backend->traits().max_source_positions;
  if (limit <= 0 || source.size() <= static_cast<size_t>(limit)) return;
  if (!options_.truncate)
    throw Error(Code::kTooLarge, fmt::format("source {} has {} tokens; the model has positions for {}; truncate (--truncate) cuts it",
                                             n_read_, source.size(), limit));
  Log(state_.options.log).warning(fmt::format("source {} had {} tokens and was cut to {}", n_read_, source.size(), limit));
  const TokenId end = source.back();
  source.resize(static_cast<size_t>(limit));
  source.back() = end;  // the end of the sentence stays its end
}

size_t Translator::n_sorted_together() const { return kBatchesSorted * static_cast<size_t>(options_.batch); }

std::vector<Translation> Translator::translate(std::vector<TranslationSource> sources) {
  sources_ = std::move(sources);
  results_.assign(sources_.size(), {});
  done_.assign(sources_.size(), false);
  n_reported_ = 0;
  std::vector<size_t> order(sources_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = 0; i < sources_.size(); ++i) results_[i].source_ids = sources_[i].tokens;
  bool goes_on = true;
  for (size_t first = 0; goes_on && first < order.size(); first += n_sorted_together()) {
    const std::span<size_t> sorted = std::span(order).subspan(first, std::min(n_sorted_together(), order.size() - first));
    std::ranges::stable_sort(sorted, {}, [&](size_t i) { return sources_[i].length(); });
    const auto batch = static_cast<size_t>(options_.batch);
    for (size_t from = 0; goes_on && from < sorted.size(); from += batch) {
      goes_on = translate_batch(sorted.subspan(from, std::min(batch, sorted.size() - from)));
      if (!goes_on) break;
      report();
      if (options_.progress)
        options_.progress(static_cast<int>(first + std::min(from + batch, sorted.size())), static_cast<int>(order.size()));
    }
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!done_[i]) results_[i].finish = Finish::kCancelled;
  }
  n_translated_ += sources_.size();
  return std::move(results_);
}

// Says whether it came to its end.
bool Translator::translate_batch(std::span<const size_t> members) {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<Tensor> features;
  std::vector<size_t> places;
  for (const size_t i : members) {
    done_[i] = sources_[i].is_blank();
    if (done_[i]) continue;
    if (sources_[i].features.defined()) {
      features.push_back(std::move(sources_[i].features));
    } else {
      tokens.push_back(std::move(sources_[i].tokens));
    }
    places.push_back(i);
  }
  if (places.empty()) return true;
  backend::Backend& backend = *state_.backend;
  std::vector<engine::EncodedSource> encoded =
      features.empty() ? engine::encode_tokens(backend, tokens) : engine::encode_features(backend, features);
  for (size_t i = 0; i < places.size(); ++i) encoded[i].stream = n_translated_ + places[i];
  std::vector<engine::Hypotheses> found;
  try {
    found = engine::translate(backend, encoded, sampler_, target_.translate);
  } catch (const engine::Cancelled&) { return false; }
  for (size_t i = 0; i < places.size(); ++i) {
    Translation& result = results_[places[i]];
    for (const sample::Hypothesis& one : found[i]) result.hypotheses.push_back(describe(state_, target_, one));
    if (!result.hypotheses.empty()) static_cast<Hypothesis&>(result) = result.hypotheses.front();
    done_[places[i]] = true;
  }
  return true;
}

void Translator::report() {
  for (; n_reported_ < done_.size() && done_[n_reported_]; ++n_reported_) {
    if (options_.translated) options_.translated(n_reported_, results_[n_reported_]);
  }
}

}  // namespace kvik::api
