#include "api/transcriber.h"

#include <algorithm>
#include <fmt/format.h>

#include "api/translator.h"
#include "audio/resample.h"
#include "engine/speech/control_tokens.h"

namespace kvik::api {
namespace {

constexpr int kMostWindowsPerBatch = 1024;

const analysis::Port& audio_port(const Model::State& state) {
  const analysis::File* encoder = state.signature.encoder();
  const analysis::Port* port = encoder == nullptr ? nullptr : encoder->input_of(analysis::Role::kAudioFeatures);
  if (port != nullptr) return *port;
  throw Error(Code::kBadArgument,
              fmt::format("{}: this model has no audio encoder and cannot transcribe; use translate or generate (kvik translate, kvik run)",
                          state.signature.folder.string()));
}

std::optional<std::string> if_set(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

class SampleSound final : public audio::Sound {
 public:
  SampleSound(std::span<const float> samples, int rate, std::shared_ptr<const void> owner)
      : samples_(samples), rate_(rate), owner_(std::move(owner)) {}

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
  std::shared_ptr<const void> owner_;
};

template <class Part>
void add(Transcription& whole, const Part& part) {
  whole.text += part.text;
  whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
}

}  // namespace

Transcriber::Transcriber(std::shared_ptr<const Model::State> state, TranscribeOptions options)
    : state_(std::move(state)),
      options_(std::move(options)),
      port_(audio_port(*state_)),
      setup_(make_target_setup(*state_, target_request(), static_cast<int>(1 + state_->config.forced_decoder_ids.size()))),
      config_(state_->config) {
  if (options_.batch < 1 || options_.batch > kMostWindowsPerBatch)
    throw Error(Code::kBadArgument, fmt::format("batch is {}; 1 to {} was expected", options_.batch, kMostWindowsPerBatch));
  if (setup_.max_new_tokens < 1) throw Error(Code::kBadArgument, "max_tokens is 0; at least 1 was expected");
  if (options_.decoding.decoder_start_token_id) config_.decoder_start = options_.decoding.decoder_start_token_id;
}

TargetRequest Transcriber::target_request() const {
  TargetRequest request = request_of(options_.decoding);
  if (options_.timestamps) request.timestamps = engine::timestamp_rules(state_->config);
  return request;
}

const audio::FeatureExtractor& Transcriber::extractor() {
  if (extractor_) return *extractor_;
  Dims shape;
  for (size_t i = 1; i < port_.dims.size(); ++i) shape.push_back(port_.dims[i].value);
  return extractor_.emplace(audio::read_feature_options(state_->signature.folder, shape));
}

Segment Transcriber::describe_window(const engine::TranscribedWindow& window) const {
  const auto& rules = setup_.sampler->tokens().timestamps;
  const Skip is_time = [&](TokenId id) { return (rules && rules->is_time(id)) || engine::is_time(state_->tokenizer->piece_of(id)); };
  Segment segment;
  segment.start_s = window.start_s;
  segment.end_s = window.end_s;
  for (const engine::Target& target : window.targets) segment.hypotheses.push_back(describe(*state_, setup_, target, is_time));
  if (!segment.hypotheses.empty()) static_cast<Hypothesis&>(segment) = segment.hypotheses.front();
  for (const engine::TimedTokens& tokens : window.texts) {
    TimedText& timed = segment.timed.emplace_back(TimedText{tokens.start_s, tokens.end_s, {}, tokens.ids});
    if (state_->tokenizer != nullptr) timed.text = describe(*state_, setup_, {.ids = tokens.ids}, is_time).text;
  }
  return segment;
}

void Transcriber::set_file(const std::filesystem::path& wave_file) {
  const std::shared_ptr<const audio::Wav> wav = audio::Wav::open(wave_file);
  std::string changes;
  if (wav->n_channels() > 1) changes += fmt::format("; its {} channels are mixed into one", wav->n_channels());
  if (wav->rate() != extractor().rate()) changes += fmt::format("; it is resampled from {} to {} Hz", wav->rate(), extractor().rate());
  if (!changes.empty()) Log(state_->options.log).warning(fmt::format("{}: {}", wave_file.string(), changes.substr(2)));
  set_sound(wav);
}

void Transcriber::set_sound(const std::shared_ptr<const audio::Sound>& sound) {
  sound_ = audio::at_rate(sound, extractor().rate());
  windows_ = engine::windows_of(*sound_, extractor());
  begin();
}

void Transcriber::set_windows(std::vector<Tensor> windows) {
  features_ = std::move(windows);
  windows_ = engine::windows_of(features_);
  begin();
}

void Transcriber::begin() {
  engine::TranscribeOptions options{.target = setup_.options,
                                    .max_new_tokens = setup_.max_new_tokens,
                                    .request = {if_set(options_.language), if_set(options_.task), options_.timestamps},
                                    .timestamps = setup_.sampler->tokens().timestamps,
                                    .window_s = options_.timestamps ? extractor().window_s() : 0,
                                    .batch = options_.batch};
  options.on_window = [this](const engine::TranscribedWindow& window, int total) {
    segments_.push_back(describe_window(window));
    if (options_.on_segment) options_.on_segment(segments_.back(), total);
  };
  work_.emplace(state_->decoder, *windows_, config_, setup_.sampler, std::move(options));
}

Transcription Transcriber::run() {
  const engine::CompleteOptions how{static_cast<size_t>(options_.batch), state_->options.reuse_prefixes, options_.decoding.cancelled};
  return result(!engine::complete(*work_, state_->decoder, how));
}

Transcription Transcriber::result(bool cancelled) {
  Transcription result;
  for (const Segment& segment : segments_) {
    if (!options_.timestamps) add(result, segment);
    for (const TimedText& timed : segment.timed) {  // text after a window's last pair of timestamps is transcribed again by the next one
      add(result, timed);
      result.timed.push_back(timed);
    }
    if (segment.finish == Finish::kLength) result.finish = Finish::kLength;
  }
  result.text.erase(0, std::min(result.text.find_first_not_of(' '), result.text.size()));
  if (cancelled) result.finish = Finish::kCancelled;
  result.segments = std::move(segments_);
  result.start_ids = work_->start();
  result.language = engine::language_of(config_, result.start_ids);
  return result;
}

std::shared_ptr<const audio::Sound> sound_of(std::span<const float> samples, int rate, std::shared_ptr<const void> owner) {
  if (rate < audio::kLowestRate || rate > audio::kHighestRate)
    throw Error(Code::kBadArgument,
                fmt::format("the sample rate is {} Hz; {} to {} was expected", rate, audio::kLowestRate, audio::kHighestRate));
  return std::make_shared<SampleSound>(samples, rate, std::move(owner));
}

}  // namespace kvik::api

namespace kvik {

Transcription Model::transcribe(std::span<const float> samples, int sample_rate, const TranscribeOptions& options) const {
  const std::shared_ptr<const audio::Sound> sound = api::sound_of(samples, sample_rate);
  api::Transcriber transcriber(state_, options);
  transcriber.set_sound(sound);
  return transcriber.run();
}

Transcription Model::transcribe(const std::filesystem::path& wave_file, const TranscribeOptions& options) const {
  api::Transcriber transcriber(state_, options);
  transcriber.set_file(wave_file);
  return transcriber.run();
}

Transcription Model::transcribe(std::span<const Features> windows, const TranscribeOptions& options) const {
  api::Transcriber transcriber(state_, options);
  transcriber.set_windows(api::to_tensors(windows));
  return transcriber.run();
}

}  // namespace kvik
