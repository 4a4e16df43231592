#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

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

void print_transcription(const Model& model, const Transcription& result, double ms) {
  Json windows = Json::array();
  for (const Segment& window : result.segments) {
    Json entry = {{"start_s", window.start_s}, {"end_s", window.end_s}};
    add_json(entry, window.hypotheses);
    windows.push_back(std::move(entry));
  }
  const double seconds = result.segments.empty() ? 0.0 : result.segments.back().end_s;
  const SourceWork work = model.source_work();
  const Json json = {{"text", result.text},
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
  options.decoding.cancelled = [] { return Interrupt::happened(); };
  options.on_segment = [&](const Segment& segment, int total) {
    progress.show(++n_done, total);
    if (terminal.json) return;
    // Text contains its spaces; ids need separators.
    const std::string text = shown(model, segment);
    print_text(n_done == 1 ? without_leading_space(text) : model.has_tokenizer() ? text : "," + text);
    flush_output();
  };
  const Transcription result = command.file.ends_with(".npy") ? model.transcribe(read_features(command.file, model.feature_rank()), options)
                                                              : model.transcribe(std::filesystem::path(command.file), options);
  progress.clear();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (terminal.json) {
    print_transcription(model, result, ms);
  } else {
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
  command
      ->add_option("FILE", options->words, "[MODEL] FILE.wav: sound of any sample rate, channel count and length; or features as FILE.npy")
      ->required()
      ->expected(1, 2)
      ->option_text(" ");
  add_load_options(*command, options->model, commands.terminal);
  command->add_option("--language", options->options.language, "Spoken language (de, fr …); detected if not given")->option_text("NAME");
  command->add_option("--task", options->options.task, "transcribe, or translate (into English)")->option_text("NAME");
  command->add_option("--batch", options->options.batch, "Windows of a long sound per batch")->check(between(1, 1024))->option_text("N");
  add_generation_options(*command, options->options.decoding);
  command->callback([=] {
    assign_words(*options);
    commands.run = [=] { return transcribe(*options, commands.terminal); };
  });
}

}  // namespace kvik::cli
