#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>

#include "api/transcriber.h"
#include "cli/progress.h"
#include "cli/target_options.h"

namespace kvik::cli {
namespace {

struct TranscribeCommand {
  ModelOptions model;
  std::vector<std::string> words;  // FILE, and MODEL before it where --model does not name it
  std::string file;
  TargetOptions target;
  TranscribeOptions listen;
};

bool names_sound(const std::string& word) {
  const std::string extension = std::filesystem::path(word).extension().string();
  return extension == ".wav" || extension == ".WAV" || extension == ".wave" || extension == ".npy";
}

// "MODEL FILE", "FILE --model MODEL" or "FILE MODEL".
void settle_words(TranscribeCommand& options) {
  std::vector<std::string> words = options.words;
  if (options.model.model.empty()) {
    if (words.size() == 2 && names_sound(words[0]) && !names_sound(words[1])) std::swap(words[0], words[1]);
    if (words.size() != 2) throw CLI::ValidationError("a model and a sound file were expected: kvik transcribe MODEL FILE.wav");
    options.model.model = words[0];
    words.erase(words.begin());
  }
  if (words.size() != 1) throw CLI::ValidationError("one sound file was expected: kvik transcribe FILE.wav --model MODEL");
  options.file = words.front();
}

std::string without_leading_space(const std::string& text) { return text.substr(std::min(text.find_first_not_of(' '), text.size())); }

Transcription hear_sound(api::Transcriber& transcriber, const std::string& file, const Terminal& terminal) {
  const std::shared_ptr<const audio::Wav> wav = audio::Wav::open(file);
  std::vector<std::string> changes;
  if (wav->n_channels() > 1) changes.push_back(fmt::format("its {} channels are mixed into one", wav->n_channels()));
  if (wav->rate() != transcriber.rate())
    changes.push_back(fmt::format("it is resampled from {} to {} samples a second", wav->rate(), transcriber.rate()));
  if (!changes.empty()) terminal.log().warning(fmt::format("{}: {}", file, fmt::join(changes, ", and ")));
  return transcriber.hear(wav);
}

void print_json(const Model& model, const Transcription& heard, double ms) {
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
                       {"language", heard.language},
                       {"windows", windows},
                       {"backend", model.backend()},
                       {"timing",
                        {{"load_ms", model.load_ms()},
                         {"transcribe_ms", ms},
                         {"times_real_time", ms > 0 ? seconds * 1e3 / ms : 0.0},
                         {"sources_encoded", work.encoded},
                         {"sources_projected", work.cross_projected}}}};
  std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

int transcribe(const TranscribeCommand& command, const Terminal& terminal) {
  const Interrupt interrupt;
  const Model model = load_model(command.model, terminal);
  const auto start = std::chrono::steady_clock::now();
  Progress progress(terminal, "listening");
  int n_heard = 0;
  TranscribeOptions options = command.listen;
  options.search = command.target.settled();
  options.search.cancelled = [] { return Interrupt::happened(); };
  options.heard = [&](const HeardWindow& window, int total) {
    progress.show(++n_heard, total);
    if (terminal.json) return;
    // Pieces of text bring their own spaces; ids need something between them.
    const std::string text = shown(model, window);
    std::cout << (n_heard == 1 ? without_leading_space(text) : model.has_tokenizer() ? text : "," + text) << std::flush;
  };
  api::Transcriber transcriber(model, std::move(options));
  const Transcription heard = command.file.ends_with(".npy") ? transcriber.hear(read_features(command.file, transcriber.feature_rank()))
                                                             : hear_sound(transcriber, command.file, terminal);
  progress.clear();
  if (heard.finish == Finish::kCancelled) throw Error(Code::kBadArgument, "transcription was interrupted");
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (terminal.json) {
    print_json(model, heard, ms);
  } else {
    std::cout << std::endl;
  }
  return 0;
}

}  // namespace

void add_transcribe(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("transcribe", "Write down what is said in a sound file");
  auto options = std::make_shared<TranscribeCommand>();
  command
      ->add_option("--model", options->model.model, "A folder, or the name of a model on the search path; may also stand before the file")
      ->option_text("MODEL");
  command->add_option("FILE", options->words, "[MODEL] FILE.wav: the sound, of any rate, channels and length; or features as FILE.npy")
      ->required()
      ->expected(1, 2)
      ->option_text(" ");
  add_load_options(*command, options->model, commands.terminal);
  command->add_option("--language", options->listen.language, "The language that is spoken (de, fr …); detected unless said")
      ->option_text("NAME");
  command->add_option("--task", options->listen.task, "What to do with it: transcribe or translate (into English)")->option_text("NAME");
  command->add_option("--batch", options->listen.batch, "Windows of a long sound that are run together")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  add_target_options(*command, options->target);
  command->callback([=] {
    settle_words(*options);
    commands.run = [=] { return transcribe(*options, commands.terminal); };
  });
}

}  // namespace kvik::cli
