#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/json/multipart.h"
#include "server/openai/openai.h"
#include "server/service/task.h"

namespace kvik::server::openai {
namespace {

struct TranscriptionRequest {
  std::string model;
  std::string format = "json";
  TranscribeOptions options;
  const FormPart* file = nullptr;
};

// A file in memory: the reader of recordings takes paths, and nothing of a request is written to a disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("recording", MFD_CLOEXEC)) {
    while (descriptor_ >= 0 && !bytes.empty()) {
      const ssize_t n = write(descriptor_, bytes.data(), bytes.size());
      if (n <= 0) break;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    if (descriptor_ < 0 || !bytes.empty()) throw ApiError(503, "", "there is no memory for the recording; try again");
  }
  ~MemoryFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

TranscriptionRequest read_transcription_request(const std::vector<FormPart>& form) {
  TranscriptionRequest request;
  for (const FormPart& part : form) {
    const std::string value(part.content.substr(0, 200));
    if (part.name == "file") request.file = &part;
    if (part.name == "model") request.model = value;
    if (part.name == "language") request.options.language = value;
    if (part.name == "response_format") request.format = value;
    if (part.name == "temperature") {
      double temperature = 0;
      const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), temperature);
      if (fault != std::errc() || end != value.data() + value.size() || !(temperature >= 0 && temperature <= 1))
        throw ApiError(400, "", "'temperature' must be a number from 0 to 1", "temperature");
      if (temperature > 0) request.options.decoding.sampling.temperature = temperature;
    }
    if (part.name == "stream" && value == "true")
      throw ApiError(400, "unsupported_parameter", "'stream' is not supported for transcriptions", "stream");
    if (part.name.starts_with("timestamp_granularities") && value != "segment")
      throw ApiError(400, "unsupported_parameter", "'timestamp_granularities' other than \"segment\" are not supported", part.name);
    if (part.name == "prompt" && !value.empty())
      throw ApiError(400, "unsupported_parameter", "'prompt' is not supported for transcriptions", "prompt");
  }
  if (request.file == nullptr) throw ApiError(400, "", "'file' is missing; a WAVE recording was expected", "file");
  if (request.model.empty()) throw ApiError(400, "", "'model' is missing", "model");
  constexpr std::string_view kFormats[] = {"json", "text", "verbose_json", "srt", "vtt"};
  if (std::ranges::find(kFormats, request.format) == std::end(kFormats))
    throw ApiError(400, "", "'response_format' must be json, text, verbose_json, srt or vtt", "response_format");
  return request;
}

// "01:02:03,456", with the given separator before the milliseconds.
std::string clock(double seconds, char separator) {
  const auto ms = static_cast<int64_t>(std::llround(seconds * 1000));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60, separator, ms % 1000);
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

// A text with its times, and the window it comes from.
struct Line {
  TimedText timed;
  const Segment* window;
};

// As the decoder says; of a model without time tokens, one per window.
std::vector<Line> lines_of(const Transcription& result, bool has_times) {
  std::vector<Line> lines;
  for (const Segment& window : result.segments) {
    if (!has_times) lines.push_back({{window.start_s, window.end_s, window.text, window.ids}, &window});
    for (const TimedText& timed : window.timed) lines.push_back({timed, &window});
  }
  return lines;
}

std::string subtitles(const std::vector<Line>& lines, bool is_vtt) {
  std::string text = is_vtt ? "WEBVTT\n\n" : "";
  int number = 0;
  for (const auto& [timed, window] : lines) {
    if (!is_vtt) text += fmt::format("{}\n", ++number);
    const char separator = is_vtt ? '.' : ',';
    text += fmt::format("{} --> {}\n{}\n\n", clock(timed.start_s, separator), clock(timed.end_s, separator), without_spaces(timed.text));
  }
  return text;
}

Json verbose_json(const Transcription& result, const std::vector<Line>& lines, double temperature) {
  constexpr double kFramesPerSecond = 100;
  Json segments = Json::array();
  for (const auto& [timed, window] : lines) {
    segments.push_back({{"id", segments.size()},
                        {"seek", std::llround(window->start_s * kFramesPerSecond)},
                        {"start", timed.start_s},
                        {"end", timed.end_s},
                        {"text", timed.text},
                        {"tokens", timed.ids},
                        {"temperature", temperature},
                        {"avg_logprob", window->score},
                        {"compression_ratio", 1.0},  // these two are not measured, but clients expect numbers
                        {"no_speech_prob", 0.0}});
  }
  return {{"task", "transcribe"},
          {"language", result.language},
          {"duration", result.segments.empty() ? 0.0 : result.segments.back().end_s},
          {"text", without_spaces(result.text)},
          {"segments", std::move(segments)}};
}

// Errors of a recording name the field, not the file in memory.
template <class Fn>
auto with_field_name(const std::string& path, Fn read) {
  try {
    return read();
  } catch (const Error& e) {
    std::string text = e.what();
    const size_t at = text.find(path);
    if (at == std::string::npos) throw;
    throw ApiError(400, "", text.replace(at, path.size(), "'file'"), "file");
  }
}

bool needs_times(const std::string& format) { return format == "srt" || format == "vtt" || format == "verbose_json"; }

Response written(const Transcription& result, const std::string& format, const TranscribeOptions& options) {
  if (format == "text") return {.body = std::string(without_spaces(result.text)) + "\n", .content_type = "text/plain; charset=utf-8"};
  const std::vector<Line> lines = lines_of(result, options.timestamps);
  if (format == "srt") return {.body = subtitles(lines, false), .content_type = "application/x-subrip; charset=utf-8"};
  if (format == "vtt") return {.body = subtitles(lines, true), .content_type = "text/vtt; charset=utf-8"};
  if (format == "verbose_json") return {.body = dump(verbose_json(result, lines, options.decoding.sampling.temperature.value_or(0)))};
  return {.body = dump({{"text", without_spaces(result.text)}})};
}

}  // namespace

void transcriptions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const std::vector<FormPart> form = parse_multipart(exchange->request.header("content-type"), exchange->request.body);
  TranscriptionRequest request = read_transcription_request(form);
  const std::string_view recording = request.file->content;  // of the body, which the exchange keeps
  service.with_model(exchange, request.model, [&service, exchange, request, recording](const Registry::Handle& model) {
    if (!model->model.has_encoder() || model->model.feature_rank() == 0)
      throw ApiError(400, "", fmt::format("{} is not a speech model", model->facts.name), "model");
    const MemoryFile file(recording);  // mapped from then on
    TranscribeOptions options = request.options;
    options.timestamps = needs_times(request.format) && model->model.has_timestamps();
    const auto submit = [&](Engine& engine, const RequestOptions& how) {
      return with_field_name(file.path(), [&] { return engine.try_transcribe(std::filesystem::path(file.path()), options, how); });
    };
    run_task<Transcription>(
        service, exchange, model, submit, [&service, exchange, options, format = request.format](const Transcription& result) {
          exchange->counts.completion_tokens = static_cast<int>(result.ids.size());
          service.metrics.add("kvik_generated_tokens_total", {{"model", exchange->model}}, static_cast<double>(result.ids.size()));
          exchange->send(written(result, format, options));
        });
  });
}

}  // namespace kvik::server::openai
