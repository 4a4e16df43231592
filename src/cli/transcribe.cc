#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/transcriber.h"
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
  TargetOptions target;
  TranscribeOptions listen;
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

Transcription transcribe_file(api::Transcriber& transcriber, const std::string& file, const Terminal& terminal) {
  const std::shared_ptr<const audio::Wav> wav = audio::Wav::open(file);
  std::vector<std::string> changes;
  if (wav->n_channels() > 1) changes.push_back(fmt::format("its {} channels are mixed into one", wav->n_channels()));
  if (wav->rate() != transcriber.rate())
    changes.push_back(fmt::format("it is resampled from {} to {} samples per second", wav->rate(), transcriber.rate()));
  if (!changes.empty()) terminal.log().warning(fmt::format("{}: {}", file, fmt::join(changes, ", and ")));
  return transcriber.hear(wav);
}

void print_transcription(const Model& model, const Transcription& heard, double ms) {
  Json windows = Json::array();
  for (const HeardWindow& window : heard.windows) {
    Json entry = {{"start_s", window.start_s}, {"end_s", window.end_s}};
    add_json(entry, window.hypotheses);
    windows.push_back(std::move(entry));
  }
  const double seconds = heard.windows.empty() ? 0.0 : heard.windows.back().end_s;
  const backend::SourceWork work = ModelAccess::state(model).backend->source_work();
  const Json result = {{"text", heard.text},
                       {"ids", heard.ids},
                       {"start_ids", heard.start_ids},
                       {"finish", finish_name(heard.finish)},
                       {"language", heard.language},
                       {"windows", windows},
                       {"backend", model.backend()},
                       {"timing",
                        {{"load_ms", model.load_ms()},
                         {"transcribe_ms", ms},
                         {"times_real_time", ms > 0 ? seconds * 1e3 / ms : 0.0},
                         {"sources_encoded", work.encoded},
                         {"sources_projected", work.cross_projected}}}};
  print_result("{}\n", result.dump(-1, ' ', false, Json::error_handler_t::replace));
}

int transcribe(const TranscribeCommand& command, const Terminal& terminal) {
  const Model model = load_model(command.model, terminal);
  const Interrupt interrupt;
  terminal.log().info("transcribing");
  const auto start = std::chrono::steady_clock::now();
  Progress progress(terminal, "transcribing");
  int n_heard = 0;
  TranscribeOptions options = command.listen;
  options.search = command.target.settled();
  options.search.cancelled = [] { return Interrupt::happened(); };
  options.heard = [&](const HeardWindow& window, int total) {
    progress.show(++n_heard, total);
    if (terminal.json) return;
    // Text contains its spaces; ids need separators.
    const std::string text = shown(model, window);
    print_text(n_heard == 1 ? without_leading_space(text) : model.has_tokenizer() ? text : "," + text);
    flush_output();
  };
  api::Transcriber transcriber(model, std::move(options));
  const Transcription heard = command.file.ends_with(".npy") ? transcriber.hear(read_features(command.file, transcriber.feature_rank()))
                                                             : transcribe_file(transcriber, command.file, terminal);
  progress.clear();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (terminal.json) {
    print_transcription(model, heard, ms);
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
  command->add_option("--language", options->listen.language, "Spoken language (de, fr …); detected if not given")->option_text("NAME");
  command->add_option("--task", options->listen.task, "transcribe, or translate (into English)")->option_text("NAME");
  command->add_option("--batch", options->listen.batch, "Windows of a long sound per batch")->check(between(1, 1024))->option_text("N");
  add_target_options(*command, options->target);
  command->callback([=] {
    assign_words(*options);
    commands.run = [=] { return transcribe(*options, commands.terminal); };
  });
}

}  // namespace kvik::cli
