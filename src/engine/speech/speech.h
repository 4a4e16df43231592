#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/speech/audio_windows.h"
#include "engine/speech/start_tokens.h"
#include "engine/speech/timed_text.h"
#include "engine/targets.h"
#include "engine/work.h"

// Speech models: recordings of any length, window by window.
namespace kvik::engine {

struct TranscribedWindow {
  double start_s = 0;
  double end_s = 0;
  std::vector<Target> targets;     // best first
  std::vector<TimedTokens> texts;  // with timestamps: segments of the best target, with times from the beginning of the recording
};

struct TranscribeOptions {
  TargetOptions target;  // start and max_length are set here
  int max_new_tokens = 0;
  SpeechRequest request;
  std::optional<sample::TimestampRules> timestamps;  // set: each window begins at the last timestamp of the one before
  double window_s = 0;                               // with timestamps: length of a window
  int batch = 4;                                     // windows that run together; with timestamps always 1
  std::function<void(const TranscribedWindow& window, int total)> on_window = nullptr;  // in order, as early as possible
};

// Transcribes a recording window by window. The language is detected in the first window; with timestamps, each window begins where the
// last segment of the one before ended.
class SpeechWork final : public Work {
 public:
  // `windows` must outlive it. Throws as speech_start() does.
  SpeechWork(std::shared_ptr<Decoder> decoder, const AudioWindows& windows, GenerationConfig config,
             std::shared_ptr<const sample::Sampler> sampler, TranscribeOptions options);

  NextPart next() const override;
  size_t next_rows() const override { return kMostSideRows; }  // so that other requests get a step between two windows
  Part begin() override;
  Stream stream_of(const Part& part) override;
  void finished(const Part& part) override;

  const std::vector<TokenId>& start() const { return options_.target.start; }  // empty until the language is known

 private:
  bool is_timed() const { return options_.timestamps.has_value(); }
  bool can_move() const { return windows_.duration_s() > 0; }
  double end_s() const;
  bool has_more() const;
  void set_start(std::optional<TokenId> detected);
  Part begin_window();
  TranscribedWindow timed_window(const Part& part);
  void report();

  std::shared_ptr<Decoder> decoder_;
  const AudioWindows& windows_;
  GenerationConfig config_;
  std::shared_ptr<const sample::Sampler> sampler_;
  TranscribeOptions options_;
  std::vector<TokenId> languages_;                       // candidates while the language is being detected, then empty
  std::shared_ptr<const backend::Source> first_source_;  // from the detection to the first window
  size_t n_begun_ = 0, n_running_ = 0, n_reported_ = 0;  // windows; while a language is detected, that is what runs
  double start_s_ = 0;                                   // with timestamps: start of the running or the next window
  std::vector<std::optional<TranscribedWindow>> done_;   // from n_reported_ on
};

struct Transcript {
  std::vector<TokenId> start;
  std::vector<TranscribedWindow> windows;
  bool cancelled = false;  // `windows` is then incomplete
};

// On the calling thread. `cancelled` is polled between steps.
Transcript transcribe(const std::shared_ptr<Decoder>& decoder, const AudioWindows& windows, const GenerationConfig& config,
                      const std::shared_ptr<const sample::Sampler>& sampler, const TranscribeOptions& options,
                      const std::function<bool()>& cancelled = nullptr);

}  // namespace kvik::engine
