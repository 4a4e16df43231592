#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>

#include "audio/resample.h"
#include "cli/progress.h"
#include "cli/target_options.h"
#include "engine/speech.h"
#include "engine/speech_tokens.h"

namespace kvik::cli {
namespace {

struct TranscribeCommand {
  ModelOptions model;
  std::vector<std::string> words;  // FILE, and MODEL before it where --model does not name it
  std::string file;
  TargetOptions target;
  std::optional<std::string> language, task;
  int batch = 4;
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

class Transcriber {
 public:
  Transcriber(const Model& model, const TranscribeCommand& options, const Terminal& terminal)
      : model_(model),
        options_(options),
        terminal_(terminal),
        state_(ModelAccess::state(model)),
        target_(make_target(model, options.target, terminal.log())),
        sampler_(target_.sampling, static_cast<size_t>(model.vocab_size())),
        port_(audio_port()) {
    config_ = state_.config;
    if (options.target.decoder_start) config_.decoder_start = options.target.decoder_start;
    target_.translate.cancelled = [] { return Interrupt::happened(); };
  }

  int run() {
    const auto start = std::chrono::steady_clock::now();
    Progress progress(terminal_, "listening");
    int n_heard = 0;
    heard_ = [&](const engine::HeardWindow& window, int total) {
      progress.show(++n_heard, total);
      // Pieces of text bring their own spaces; ids need something between them.
      const std::string text = (model_.has_tokenizer() || n_heard == 1 ? "" : ",") + text_of_window(window);
      if (!terminal_.json) std::cout << (n_heard == 1 ? without_leading_space(text) : text) << std::flush;
      text_ += text;
    };
    const engine::Transcript transcript = options_.file.ends_with(".npy") ? from_features() : from_sound();
    progress.clear();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (terminal_.json) {
      print_json(transcript, ms);
    } else {
      std::cout << std::endl;
    }
    return 0;
  }

 private:
  const analysis::Port& audio_port() const {
    const analysis::File* encoder = state_.signature.encoder();
    const analysis::Port* port = encoder == nullptr ? nullptr : encoder->input_of(analysis::Role::kAudioFeatures);
    if (port == nullptr)
      throw Error(Code::kBadArgument, "this model does not listen: it has no encoder that reads sound; use 'kvik translate' or 'kvik run'");
    return *port;
  }

  engine::TranscribeOptions transcribing() const {
    return {.translate = target_.translate,
            .max_new_tokens = target_.max_new_tokens,
            .wish = {options_.language, options_.task},
            .batch = options_.batch,
            .heard = heard_};
  }

  engine::Transcript from_sound() const {
    Dims shape;
    for (size_t i = 1; i < port_.dims.size(); ++i) shape.push_back(port_.dims[i].value);
    const audio::FeatureExtractor extractor(audio::read_feature_options(state_.signature.folder, shape));
    const std::shared_ptr<const audio::Wav> wav = audio::Wav::open(options_.file);
    std::vector<std::string> changes;
    if (wav->n_channels() > 1) changes.push_back(fmt::format("its {} channels are mixed into one", wav->n_channels()));
    if (wav->rate() != extractor.rate())
      changes.push_back(fmt::format("it is resampled from {} to {} samples a second", wav->rate(), extractor.rate()));
    if (!changes.empty()) terminal_.log().warning(fmt::format("{}: {}", options_.file, fmt::join(changes, ", and ")));
    return engine::transcribe(*state_.backend, *audio::at_rate(wav, extractor.rate()), extractor, config_, sampler_, transcribing());
  }

  engine::Transcript from_features() const {
    return engine::transcribe(*state_.backend, read_features(options_.file, port_.dims.size()), config_, sampler_, transcribing());
  }

  static std::string without_leading_space(const std::string& text) {
    return text.substr(std::min(text.find_first_not_of(' '), text.size()));
  }

  std::string text_of_window(const engine::HeardWindow& window) const {
    return window.found.empty() ? std::string() : text_of(model_, spoken(window.found.front()), options_.target);
  }

  // Without the times between the words, where a model writes such.
  sample::Hypothesis spoken(sample::Hypothesis heard) const {
    const auto& tokenizer = state_.tokenizer;
    if (tokenizer != nullptr) std::erase_if(heard.ids, [&](TokenId id) { return engine::is_time(tokenizer->piece_of(id)); });
    return heard;
  }

  Json json_of(const sample::Hypothesis& heard) const {
    Json entry = to_json(model_, heard, target_, options_.target);
    entry["text"] = model_.has_tokenizer() ? text_of(model_, spoken(heard), options_.target) : "";
    return entry;
  }

  void print_json(const engine::Transcript& transcript, double ms) const {
    Json windows = Json::array();
    std::vector<TokenId> ids;
    for (const engine::HeardWindow& window : transcript.windows) {
      Json entry = {{"start_s", window.start_s}, {"end_s", window.end_s}};
      for (size_t i = 0; i < window.found.size(); ++i) {
        const Json one = json_of(window.found[i]);
        if (i == 0) entry.update(one);
        if (window.found.size() > 1) entry["hypotheses"].push_back(one);
      }
      if (!window.found.empty()) ids.insert(ids.end(), window.found.front().ids.begin(), window.found.front().ids.end());
      windows.push_back(std::move(entry));
    }
    const double seconds = transcript.windows.empty() ? 0.0 : transcript.windows.back().end_s;
    const backend::SourceWork work = state_.backend->source_work();
    const Json result = {{"text", model_.has_tokenizer() ? without_leading_space(text_) : ""},
                         {"ids", ids},
                         {"start_ids", transcript.start},
                         {"language", engine::language_of(config_, transcript.start)},
                         {"windows", windows},
                         {"backend", model_.backend()},
                         {"timing",
                          {{"load_ms", model_.load_ms()},
                           {"transcribe_ms", ms},
                           {"times_real_time", ms > 0 ? seconds * 1e3 / ms : 0.0},
                           {"sources_encoded", work.encoded},
                           {"sources_projected", work.cross_projected}}}};
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }

  const Model& model_;
  const TranscribeCommand& options_;
  const Terminal& terminal_;
  const ModelAccess::State& state_;
  engine::GenerationConfig config_;
  Target target_;
  sample::Sampler sampler_;
  const analysis::Port& port_;
  std::function<void(const engine::HeardWindow&, int)> heard_;
  std::string text_;
};

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
  command->add_option("--language", options->language, "The language that is spoken (de, fr …); detected unless said")->option_text("NAME");
  command->add_option("--task", options->task, "What to do with it: transcribe or translate (into English)")->option_text("NAME");
  command->add_option("--batch", options->batch, "Windows of a long sound that are run together")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  add_target_options(*command, options->target);
  command->callback([=] {
    settle_words(*options);
    commands.run = [=] {
      const Interrupt interrupt;
      const Model model = load_model(options->model, commands.terminal);
      return Transcriber(model, *options, commands.terminal).run();
    };
  });
}

}  // namespace kvik::cli
