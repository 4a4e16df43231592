#include "engine/speech/speech.h"

#include <algorithm>

#include "kvik/error.h"

namespace kvik::engine {
namespace {

constexpr size_t kDetection = SIZE_MAX;  // index of the part that detects the language

size_t max_length_of(const backend::Traits& traits, size_t n_start, int max_new_tokens) {
  const size_t length = n_start + static_cast<size_t>(max_new_tokens);
  return traits.max_positions > 0 ? std::min(length, static_cast<size_t>(traits.max_positions)) : length;
}

}  // namespace

SpeechWork::SpeechWork(std::shared_ptr<Decoder> decoder, const AudioWindows& windows, GenerationConfig config,
                       std::shared_ptr<const sample::Sampler> sampler, TranscribeOptions options)
    : decoder_(std::move(decoder)),
      windows_(windows),
      config_(std::move(config)),
      sampler_(std::move(sampler)),
      options_(std::move(options)),
      languages_(languages_to_detect(config_, options_.request)) {
  set_start(std::nullopt);  // also reports what is wrong with the request
  if (!languages_.empty()) options_.target.start.clear();
}

void SpeechWork::set_start(std::optional<TokenId> detected) {
  options_.target.start = speech_start(config_, options_.request, detected);
  options_.target.beams.max_length = max_length_of(decoder_->backend().traits(), options_.target.start.size(), options_.max_new_tokens);
}

double SpeechWork::end_s() const { return can_move() ? windows_.duration_s() : windows_.count() * options_.window_s; }

bool SpeechWork::has_more() const {
  return is_timed() && can_move() ? start_s_ < end_s() : n_begun_ < static_cast<size_t>(windows_.count());
}

NextPart SpeechWork::next() const {
  const size_t most_running = languages_.empty() && !is_timed() ? static_cast<size_t>(options_.batch) : 1;
  if (n_running_ >= most_running && (is_timed() || has_more())) return NextPart::kLater;
  return has_more() ? NextPart::kReady : NextPart::kNone;
}

Part SpeechWork::begin() {
  ++n_running_;
  if (!languages_.empty())
    return {.index = kDetection, .input = is_timed() && can_move() ? windows_.features_from(0) : windows_.features(0)};
  return begin_window();
}

Part SpeechWork::begin_window() {
  Part part{.index = n_begun_};
  if (n_begun_ == 0) part.source = std::move(first_source_);
  const auto window = static_cast<int>(n_begun_++);
  part.input = is_timed() && can_move() ? windows_.features_from(start_s_) : windows_.features(window);
  done_.emplace_back();
  return part;
}

Stream SpeechWork::stream_of(const Part& part) {
  if (part.index != kDetection) return target_stream(decoder_, sampler_, {part.source, {}, part.index}, options_.target);
  first_source_ = part.source;
  Stream stream(Sequence(decoder_, 0, part.source), std::make_unique<LanguageStrategy>(languages_));
  stream.branches.front().push(*config_.decoder_start);
  return stream;
}

void SpeechWork::finished(const Part& part) {
  --n_running_;
  if (part.index == kDetection) {
    set_start(static_cast<const LanguageStrategy&>(*part.stream->strategy).chosen());
    languages_.clear();
    return;
  }
  const auto window = static_cast<int>(part.index);
  std::optional<TranscribedWindow>& done = done_[part.index - n_reported_];
  if (is_timed()) {
    done = timed_window(part);
  } else {
    done = TranscribedWindow{windows_.start_s(window), windows_.end_s(window), part.stream->strategy->targets(), {}};
  }
  report();
}

TranscribedWindow SpeechWork::timed_window(const Part& part) {
  const double start_s = start_s_, length_s = std::min(options_.window_s, end_s() - start_s);
  std::vector<Target> targets = part.stream->strategy->targets();
  std::vector<TokenId> ids = targets.front().ids;
  if (!ids.empty() && std::ranges::find(config_.eos, ids.back()) != config_.eos.end()) ids.pop_back();
  const double s_per_index = options_.window_s / std::max(1, part.source->n_positions());
  TimedWindow timed = cut_at_times(ids, *options_.timestamps, s_per_index, length_s);
  for (TimedTokens& text : timed.texts) text.start_s += start_s, text.end_s += start_s;
  start_s_ += can_move() ? timed.advance_s : options_.window_s;
  return {start_s, start_s + length_s, std::move(targets), std::move(timed.texts)};
}

void SpeechWork::report() {
  size_t n = 0;
  for (; n < done_.size() && done_[n]; ++n, ++n_reported_) {
    if (options_.on_window) options_.on_window(*done_[n], windows_.count());
  }
  done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(n));
}

Transcript transcribe(const std::shared_ptr<Decoder>& decoder, const AudioWindows& windows, const GenerationConfig& config,
                      const std::shared_ptr<const sample::Sampler>& sampler, const TranscribeOptions& options,
                      const std::function<bool()>& cancelled) {
  Transcript transcript;
  TranscribeOptions ours = options;
  ours.on_window = [&](const TranscribedWindow& window, int total) {
    transcript.windows.push_back(window);
    if (options.on_window) options.on_window(window, total);
  };
  SpeechWork work(decoder, windows, config, sampler, std::move(ours));
  transcript.cancelled = !complete(work, decoder, {.n_parts = static_cast<size_t>(options.batch), .cancelled = cancelled});
  transcript.start = work.start();
  return transcript;
}

}  // namespace kvik::engine
