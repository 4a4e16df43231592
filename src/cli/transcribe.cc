#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/elapsed.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target_options.h"
#include "cli/validators.h"

namespace kvik::cli {
namespace {

struct TranscribeCommand {
  ModelOptions model;
  std::vector<std::string> words;  // FILE; MODEL before it if there is no --model
  std::string file;
  TranscribeOptions options;
  bool srt = false, vtt = false;  // subtitles
};

bool is_sound_file(const std::string& word) {
  const std::string extension = std::filesystem::path(word).extension().string();
  return extension == ".wav" || extension == ".WAV" || extension == ".wave" || extension == ".npy";
}

// "MODEL FILE", "FILE --model MODEL" or "FILE MODEL".
void assign_words(TranscribeCommand& options) {
  std::vector<std::string> words = options.words;
  if (options.model.model.empty()) {
    if (words.size() == 2 && is_sound_file(words[0]) && !is_sound_file(words[1])) std::swap(words[0], words[1]);
    if (words.size() != 2) throw CLI::ValidationError("a model and a sound file were expected: kvik transcribe MODEL FILE.wav");
    options.model.model = words[0];
    words.erase(words.begin());
  }
  if (words.size() != 1) throw CLI::ValidationError("one sound file was expected: kvik transcribe FILE.wav --model MODEL");
  options.file = words.front();
}

std::string without_leading_space(const std::string& text) { return text.substr(std::min(text.find_first_not_of(' '), text.size())); }

// 01:02:03.456, with a comma in SubRip files.
std::string time_text(double seconds, char point) {
  const auto ms = static_cast<int64_t>(seconds * 1e3 + 0.5);
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60, point, ms % 1000);
}

// Prints texts and their times as they arrive: as lines, SubRip or WebVTT.
class TimedLines {
 public:
  TimedLines(const Model& model, const TranscribeCommand& command) : model_(model), srt_(command.srt), vtt_(command.vtt) {
    if (vtt_) print_text("WEBVTT\n\n");
  }

  void print(const Segment& segment) {
    for (const TimedText& timed : segment.timed) {
      const std::string text = model_.has_tokenizer() ? without_leading_space(timed.text) : fmt::format("{}", fmt::join(timed.ids, ","));
      const char point = srt_ ? ',' : '.';
      const std::string times = fmt::format("{} --> {}", time_text(timed.start_s, point), time_text(timed.end_s, point));
      if (srt_) {
        print_result("{}\n{}\n{}\n\n", ++n_, times, text);
      } else if (vtt_) {
        print_result("{}\n{}\n\n", times, text);
      } else {
        print_result("[{}]  {}\n", times, text);
      }
    }
    flush_output();
  }

 private:
  const Model& model_;
  bool srt_, vtt_;
  int n_ = 0;
};

Json timed_json(const std::vector<TimedText>& texts) {
  Json list = Json::array();
  for (const TimedText& timed : texts)
    list.push_back({{"start_s", timed.start_s}, {"end_s", timed.end_s}, {"text", timed.text}, {"ids", timed.ids}});
  return list;
}

void print_transcription(const Model& model, const Transcription& result, bool timestamps, double ms) {
  Json windows = Json::array();
  for (const Segment& window : result.segments) {
    Json entry = {{"start_s", window.start_s}, {"end_s", window.end_s}};
    add_json(entry, window.hypotheses);
    windows.push_back(std::move(entry));
  }
  const double seconds = result.segments.empty() ? 0.0 : result.segments.back().end_s;
  const SourceWork work = model.source_work();
  Json json = {{"text", result.text},
               {"ids", result.ids},
               {"start_ids", result.start_ids},
               {"finish", finish_name(result.finish)},
               {"language", result.language},
               {"windows", windows},
               {"backend", model.backend()},
               {"timing",
                {{"load_ms", model.load_ms()},
                 {"transcribe_ms", ms},
                 {"times_real_time", ms > 0 ? seconds * 1e3 / ms : 0.0},
                 {"sources_encoded", work.encoded},
                 {"sources_projected", work.cross_projected}}}};
  if (timestamps) json["segments"] = timed_json(result.timed);
  print_result("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

int transcribe(const TranscribeCommand& command, const Terminal& terminal) {
  const Model model = load_model(command.model, terminal);
  const Interrupt interrupt;
  terminal.log().info("transcribing");
  const auto start = std::chrono::steady_clock::now();
  Progress progress(terminal, "transcribing");
  int n_done = 0;
  TranscribeOptions options = command.options;
  options.timestamps = options.timestamps || command.srt || command.vtt;
  std::optional<TimedLines> lines;
  if (options.timestamps && !terminal.json) lines.emplace(model, command);
  options.decoding.cancelled = [] { return Interrupt::happened(); };
  options.on_segment = [&](const Segment& segment, int total) {
    progress.show(++n_done, total);
    if (lines) lines->print(segment);
    if (terminal.json || lines) return;
    // Text contains its spaces; ids need separators.
    const std::string text = shown(model, segment);
    print_text(n_done == 1 ? without_leading_space(text) : model.has_tokenizer() ? text : "," + text);
    flush_output();
  };
  const Transcription result = command.file.ends_with(".npy") ? model.transcribe(read_features(command.file, model.feature_rank()), options)
                                                              : model.transcribe(std::filesystem::path(command.file), options);
  progress.clear();
  const double ms = ms_since(start);
  if (terminal.json) {
    print_transcription(model, result, options.timestamps, ms);
  } else if (!options.timestamps) {
    print_text("\n");
  }
  return 0;
}

}  // namespace

void add_transcribe(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("transcribe", "Transcribe speech from a sound file");
  auto options = std::make_shared<TranscribeCommand>();
  command->add_option("--model", options->model.model, "Folder, or name of a model on the search path; may also be given before the file")
      ->option_text("MODEL");
  command->add_option("FILE", options->words, "[MODEL] FILE.wav: any sample rate, channel count and length; or features as FILE.npy")
      ->required()
      ->expected(1, 2)
      ->option_text(" ");
  add_load_options(*command, options->model, commands.terminal);
  command->add_option("--language", options->options.language, "Spoken language (de, fr …); default: detected")->option_text("NAME");
  command->add_option("--task", options->options.task, "transcribe, or translate (into English)")->option_text("NAME");
  command->add_flag("--timestamps", options->options.timestamps,
                    "Print when each segment begins and ends, from the model's timestamp tokens");
  CLI::Option* srt = command->add_flag("--srt", options->srt, "Print SubRip subtitles (.srt)");
  command->add_flag("--vtt", options->vtt, "Print WebVTT subtitles (.vtt)")->excludes(srt);
  command->add_option("--batch", options->options.batch, "Audio windows per batch, for long recordings")
      ->check(between(1, 1024))
      ->option_text("N");
  add_generation_options(*command, options->options.decoding);
  command->callback([=] {
    assign_words(*options);
    commands.run = [=] { return transcribe(*options, commands.terminal); };
  });
}

}  // namespace kvik::cli
