#include "api/transcriber.h"

#include <algorithm>
#include <fmt/format.h>

#include "audio/resample.h"
#include "engine/speech_tokens.h"

namespace kvik::api {
namespace {

constexpr int kMostWindowsPerBatch = 1024;

const analysis::Port& audio_port(const ModelAccess::State& state) {
  const analysis::File* encoder = state.signature.encoder();
  const analysis::Port* port = encoder == nullptr ? nullptr : encoder->input_of(analysis::Role::kAudioFeatures);
  if (port != nullptr) return *port;
  throw Error(Code::kBadArgument,
              fmt::format("{}: this model does not listen: it has no encoder that reads sound; use translate or generate "
                          "(kvik translate, kvik run)",
                          state.signature.folder.string()));
}

std::optional<std::string> where_said(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

// Samples that the caller keeps.
class Samples final : public audio::Sound {
 public:
  Samples(std::span<const float> samples, int rate) : samples_(samples), rate_(rate) {}

  int rate() const override { return rate_; }
  int64_t n_samples() const override { return static_cast<int64_t>(samples_.size()); }
  void read(int64_t first, std::span<float> target) const override {
    for (size_t i = 0; i < target.size(); ++i) {
      const int64_t at = first + static_cast<int64_t>(i);
      target[i] = at >= 0 && at < n_samples() ? samples_[static_cast<size_t>(at)] : 0.0f;
    }
  }

 private:
  std::span<const float> samples_;
  int rate_;
};

}  // namespace

Transcriber::Transcriber(const Model& model, TranscribeOptions options)
    : model_(model),
      options_(std::move(options)),
      state_(ModelAccess::state(model_)),
      port_(audio_port(state_)),
      target_(make_target(state_, options_.search)),
      sampler_(target_.sampling, static_cast<size_t>(model.vocab_size())),
      config_(state_.config) {
  if (options_.batch < 1 || options_.batch > kMostWindowsPerBatch)
    throw Error(Code::kBadArgument, fmt::format("batch is {}; 1 to {} was expected", options_.batch, kMostWindowsPerBatch));
  if (options_.search.decoder_start_token_id) config_.decoder_start = options_.search.decoder_start_token_id;
}

const audio::FeatureExtractor& Transcriber::extractor() {
  if (extractor_) return *extractor_;
  Dims shape;
  for (size_t i = 1; i < port_.dims.size(); ++i) shape.push_back(port_.dims[i].value);
  return extractor_.emplace(audio::read_feature_options(state_.signature.folder, shape));
}

int Transcriber::rate() { return extractor().rate(); }

HeardWindow Transcriber::described(const engine::HeardWindow& window) const {
  // Times between the words, where a model writes such, are no text.
  const Skips is_time = [&](TokenId id) { return engine::is_time(state_.tokenizer->piece_of(id)); };
  HeardWindow heard;
  heard.start_s = window.start_s;
  heard.end_s = window.end_s;
  for (const sample::Hypothesis& one : window.found) heard.hypotheses.push_back(describe(state_, target_, one, is_time));
  if (!heard.hypotheses.empty()) static_cast<Hypothesis&>(heard) = heard.hypotheses.front();
  return heard;
}

engine::TranscribeOptions Transcriber::listening(Transcription& heard) const {
  return {.translate = target_.translate,
          .max_new_tokens = target_.max_new_tokens,
          .wish = {where_said(options_.language), where_said(options_.task)},
          .batch = options_.batch,
          .heard = [&](const engine::HeardWindow& window, int total) {
            heard.windows.push_back(described(window));
            if (options_.heard) options_.heard(heard.windows.back(), total);
          }};
}

Transcription Transcriber::finished(Transcription heard, const std::vector<TokenId>* start) const {
  for (const HeardWindow& window : heard.windows) {
    heard.text += window.text;
    heard.ids.insert(heard.ids.end(), window.ids.begin(), window.ids.end());
    if (window.finish == Finish::kLength) heard.finish = Finish::kLength;
  }
  heard.text.erase(0, std::min(heard.text.find_first_not_of(' '), heard.text.size()));
  if (start == nullptr) heard.finish = Finish::kCancelled;
  if (start != nullptr) heard.start_ids = *start;
  heard.language = engine::language_of(config_, heard.start_ids);
  return heard;
}

Transcription Transcriber::hear(const std::shared_ptr<const audio::Sound>& sound) {
  Transcription heard;
  try {
    const std::shared_ptr<const audio::Sound> at_rate = audio::at_rate(sound, rate());
    const engine::Transcript all = engine::transcribe(*state_.backend, *at_rate, extractor(), config_, sampler_, listening(heard));
    return finished(std::move(heard), &all.start);
  } catch (const engine::Cancelled&) { return finished(std::move(heard), nullptr); }
}

Transcription Transcriber::hear(std::span<const Tensor> windows) {
  Transcription heard;
  try {
    const engine::Transcript all = engine::transcribe(*state_.backend, windows, config_, sampler_, listening(heard));
    return finished(std::move(heard), &all.start);
  } catch (const engine::Cancelled&) { return finished(std::move(heard), nullptr); }
}

}  // namespace kvik::api

namespace kvik {

Transcription Model::transcribe(std::span<const float> samples, int rate, const TranscribeOptions& options) const {
  if (rate < audio::kLowestRate || rate > audio::kHighestRate)
    throw Error(Code::kBadArgument,
                fmt::format("the rate is {} samples a second; {} to {} were expected", rate, audio::kLowestRate, audio::kHighestRate));
  return api::Transcriber(*this, options).hear(std::make_shared<api::Samples>(samples, rate));
}

}  // namespace kvik
