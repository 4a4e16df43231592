#include "api/translator.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <numeric>

#include "backend/graph/convert.h"
#include "tensor/npy.h"

namespace kvik {

std::vector<Translation> Model::translate(std::span<const std::string> texts, const TranslateOptions& options) const {
  api::Translator translator(state_, options);
  for (const std::string& text : texts) translator.add_text(text);
  return translator.run();
}

std::vector<Translation> Model::translate(std::span<const std::vector<TokenId>> sources, const TranslateOptions& options) const {
  api::Translator translator(state_, options);
  for (const std::vector<TokenId>& source : sources) translator.add_ids(source);
  return translator.run();
}

std::vector<Translation> Model::translate(std::span<const Features> sources, const TranslateOptions& options) const {
  api::Translator translator(state_, options);
  for (const Features& source : sources) translator.add_features(api::to_tensor(source));
  return translator.run();
}

Translation Model::translate(std::span<const TokenId> source, const TranslateOptions& options) const {
  const std::vector<TokenId> sources[] = {{source.begin(), source.end()}};
  return std::move(translate(sources, options).front());
}

Translation Model::translate(std::string_view text, const TranslateOptions& options) const {
  const std::string texts[] = {std::string(text)};
  return std::move(translate(texts, options).front());
}

Features read_npy_features(const std::filesystem::path& file) {
  const Tensor floats = backend::cast_float(read_npy(file), DType::kF32);
  const std::span<const float> values = floats.data<float>();
  return {{floats.dims().begin(), floats.dims().end()}, {values.begin(), values.end()}};
}

int Model::feature_rank() const {
  const analysis::Port* port = api::feature_port(*state_);
  return port == nullptr ? 0 : static_cast<int>(port->dims.size()) - 1;
}

}  // namespace kvik

namespace kvik::api {
namespace {

// Sources of similar length share a batch among so many batches: enough to pad little, few enough that a long input is answered early. The
// longest come first, because those that run at the end, when no others take the places of those that have ended, should take few steps.
constexpr size_t kBatchesSorted = 16;
constexpr int kMostTextsPerBatch = 4096;

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

TranslateOptions checked(const Model::State& state, TranslateOptions options) {
  if (!state.traits().needs_source)
    throw Error(Code::kBadArgument, fmt::format("{}: this model has no encoder and cannot translate; use generate (kvik run)",
                                                state.signature.folder.string()));
  if (options.batch < 1 || options.batch > kMostTextsPerBatch)
    throw Error(Code::kBadArgument, fmt::format("batch is {}; 1 to {} was expected", options.batch, kMostTextsPerBatch));
  if (options.language.empty()) return options;
  options.sampling.forced_bos_token_id = state.tokenizer != nullptr ? state.tokenizer->language_id(options.language) : std::nullopt;
  if (!options.sampling.forced_bos_token_id)
    throw Error(Code::kBadArgument,
                fmt::format("the model's tokenizer has no token for the language '{}'; write it as in the model's files (fr, fra_Latn …)",
                            options.language));
  return options;
}

// max_length is limited by the decoder's positions.
TargetSetup setup_of(const Model::State& state, const TranslateOptions& options) {
  TargetSetup setup = make_target_setup(state, request_of(options), static_cast<int>(1 + state.config.forced_decoder_ids.size()));
  engine::TargetOptions& target = setup.options;
  if (target.start.empty())
    throw Error(Code::kBadModel,
                "the config files do not set the decoder's start token; set decoder_start_token_id (--decoder-start-token-id)");
  target.scores = options.scores || target.beams.num_return_sequences > 1;  // which are sorted by it
  if (setup.max_new_tokens < 1) throw Error(Code::kBadArgument, "max_tokens is 0; at least 1 was expected");
  target.beams.max_length = target.start.size() + static_cast<size_t>(setup.max_new_tokens);
  if (const int limit = state.traits().max_positions; limit > 1)
    target.beams.max_length = std::min(target.beams.max_length, static_cast<size_t>(limit));
  if (!setup.stop.empty() && state.tokenizer != nullptr) {
    target.text = [tokenizer = state.tokenizer, stop = setup.stop] { return std::make_unique<engine::TextOutput>(tokenizer, stop); };
  }
  return setup;
}

}  // namespace

const analysis::Port* feature_port(const Model::State& state) {
  const analysis::File* encoder = state.signature.encoder();
  if (encoder == nullptr) return nullptr;
  const analysis::Port* audio = encoder->input_of(analysis::Role::kAudioFeatures);
  return audio != nullptr ? audio : encoder->input_of(analysis::Role::kPixelValues);
}

Tensor to_tensor(const Features& features) {
  const Dims dims(features.shape.begin(), features.shape.end());
  const bool fits = std::ranges::all_of(dims, [](int64_t size) { return size >= 0 && size <= INT32_MAX; }) && dims.size() <= 8 &&
                    features.values.size() <= INT32_MAX && element_count(dims) == static_cast<int64_t>(features.values.size());
  if (!fits)
    throw Error(Code::kBadArgument, fmt::format("features of the shape {} have {} values", to_string(dims), features.values.size()));
  return Tensor::of(dims, std::span<const float>(features.values));
}

std::vector<Tensor> to_tensors(std::span<const Features> all) {
  std::vector<Tensor> tensors;
  for (const Features& features : all) tensors.push_back(to_tensor(features));
  return tensors;
}

Translator::Translator(std::shared_ptr<const Model::State> state, TranslateOptions options)
    : state_(std::move(state)), options_(checked(*state_, std::move(options))), setup_(setup_of(*state_, options_)) {}

void Translator::check_reads_text() const {
  const analysis::Port* port = feature_port(*state_);
  if (port == nullptr) return;
  throw Error(Code::kBadArgument,
              fmt::format("the encoder of this model reads '{}', not text; use transcribe (kvik transcribe) for audio, or features "
                          "(--features FILE.npy)",
                          port->name));
}

void Translator::add_text(std::string_view text) {
  check_reads_text();
  add(is_blank(text) ? std::vector<TokenId>() : state_->tokenize(text, {.language = options_.source_language}));
}

void Translator::add_ids(std::vector<TokenId> ids) {
  check_reads_text();
  if (ids.empty()) throw Error(Code::kBadArgument, fmt::format("source {} has no tokens; at least one was expected", index_of_next() + 1));
  add(std::move(ids));
}

void Translator::add_features(Tensor features) {
  if (feature_port(*state_) == nullptr)
    throw Error(Code::kBadArgument, "the encoder of this model reads token ids, not features; pass a text or ids");
  sources_.push_back({{}, std::move(features)});
}

void Translator::add(std::vector<TokenId> ids) {
  const int limit = state_->traits().max_source_positions;
  if (limit > 0 && ids.size() > static_cast<size_t>(limit)) {
    if (!options_.truncate)
      throw Error(Code::kTooLarge, fmt::format("source {} has {} tokens; the model has positions for {}; truncate (--truncate) shortens it",
                                               index_of_next() + 1, ids.size(), limit));
    Log(state_->options.log)
        .warning(fmt::format("source {} had {} tokens and was truncated to {}", index_of_next() + 1, ids.size(), limit));
    const TokenId end = ids.back();
    ids.resize(static_cast<size_t>(limit));
    ids.back() = end;  // the end of the sentence stays its end
  }
  if (!ids.empty()) engine::check_source(ids, state_->traits());
  sources_.push_back({std::move(ids), {}});
}

std::vector<Translation> Translator::run() {
  const engine::CompleteOptions how{static_cast<size_t>(options_.batch), state_->options.reuse_prefixes, options_.cancelled};
  engine::Work& all = work();
  most_begun_ *= 2;  // as many are encoded while others run
  return result(!engine::complete(all, state_->decoder, how));
}

engine::Work& Translator::work() {
  most_begun_ = static_cast<size_t>(options_.batch);
  results_.assign(sources_.size(), {});
  done_.assign(sources_.size(), false);
  for (size_t i = 0; i < sources_.size(); ++i) {
    results_[i].source_ids = sources_[i].tokens;
    done_[i] = sources_[i].is_blank();
    if (!done_[i]) order_.push_back(i);
  }
  n_done_ = sources_.size() - order_.size();
  const size_t n_sorted = kBatchesSorted * static_cast<size_t>(options_.batch);
  for (size_t first = 0; first < order_.size(); first += n_sorted) {
    const std::span<size_t> sorted = std::span(order_).subspan(first, std::min(n_sorted, order_.size() - first));
    std::ranges::stable_sort(sorted, std::greater<>(), [&](size_t i) { return sources_[i].length(); });
  }
  report();
  return *this;
}

engine::NextPart Translator::next() const {
  if (n_begun_ == order_.size()) return engine::NextPart::kNone;
  return n_running_ < most_begun_ ? engine::NextPart::kReady : engine::NextPart::kLater;
}

size_t Translator::next_rows() const {
  const Source& source = sources_[order_[n_begun_]];
  return source.features.defined() ? engine::kMostSideRows : source.tokens.size();
}

engine::Part Translator::begin() {
  engine::Part part{.index = order_[n_begun_++]};
  Source& source = sources_[part.index];
  part.input = source.features.defined() ? std::move(source.features) : engine::source_input(source.tokens);
  ++n_running_;
  return part;
}

engine::Stream Translator::stream_of(const engine::Part& part) {
  const engine::EncodedSource source{part.source, sources_[part.index].tokens, options_.first_index + part.index};
  return engine::target_stream(state_->decoder, setup_.sampler, source, setup_.options);
}

void Translator::finished(const engine::Part& part) {
  --n_running_;
  Translation& result = results_[part.index];
  for (const engine::Target& target : part.stream->strategy->targets()) result.hypotheses.push_back(describe(*state_, setup_, target));
  if (!result.hypotheses.empty()) static_cast<Hypothesis&>(result) = result.hypotheses.front();
  done_[part.index] = true;
  report();
  if (options_.progress) options_.progress(static_cast<int>(++n_done_), static_cast<int>(sources_.size()));
}

void Translator::report() {
  for (; n_reported_ < done_.size() && done_[n_reported_]; ++n_reported_) {
    if (options_.on_translation) options_.on_translation(n_reported_, results_[n_reported_]);
  }
}

std::vector<Translation> Translator::result(bool /*cancelled*/) {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!done_[i]) results_[i].finish = Finish::kCancelled;
  }
  return std::move(results_);
}

}  // namespace kvik::api
