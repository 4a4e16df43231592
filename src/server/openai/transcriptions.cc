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

std::string subtitles(const Transcription& result, bool is_vtt) {
  std::string text = is_vtt ? "WEBVTT\n\n" : "";
  int number = 0;
  for (const Segment& segment : result.segments) {
    if (!is_vtt) text += fmt::format("{}\n", ++number);
    const char separator = is_vtt ? '.' : ',';
    text +=
        fmt::format("{} --> {}\n{}\n\n", clock(segment.start_s, separator), clock(segment.end_s, separator), without_spaces(segment.text));
  }
  return text;
}

Json verbose_json(const Transcription& result) {
  Json segments = Json::array();
  for (const Segment& segment : result.segments) {
    segments.push_back({{"id", segments.size()},
                        {"seek", 0},
                        {"start", segment.start_s},
                        {"end", segment.end_s},
                        {"text", segment.text},
                        {"tokens", segment.ids},
                        {"temperature", 0.0},
                        {"avg_logprob", segment.score},
                        {"compression_ratio", 1.0},
                        {"no_speech_prob", 0.0}});
  }
  return {{"task", "transcribe"},
          {"language", result.language},
          {"duration", result.segments.empty() ? 0.0 : result.segments.back().end_s},
          {"text", without_spaces(result.text)},
          {"segments", std::move(segments)}};
}

Response written(const Transcription& result, const std::string& format) {
  if (format == "text") return {.body = std::string(without_spaces(result.text)) + "\n", .content_type = "text/plain; charset=utf-8"};
  if (format == "srt") return {.body = subtitles(result, false), .content_type = "application/x-subrip; charset=utf-8"};
  if (format == "vtt") return {.body = subtitles(result, true), .content_type = "text/vtt; charset=utf-8"};
  if (format == "verbose_json") return {.body = dump(verbose_json(result))};
  return {.body = dump({{"text", without_spaces(result.text)}})};
}

}  // namespace

void transcriptions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const std::vector<FormPart> form = parse_multipart(exchange->request.header("content-type"), exchange->request.body);
  TranscriptionRequest request = read_transcription_request(form);
  const std::string_view recording = request.file->content;  // of the body, which the exchange keeps
  service.with_model(exchange, request.model, [&service, exchange, request, recording](const Registry::Handle& model) {
    if (!model->model.has_encoder() || model->model.feature_rank() == 0)
      throw ApiError(400, "", fmt::format("{} is no speech model", model->facts.name), "model");
    const MemoryFile file(recording);  // mapped from then on
    const auto submit = [&](Engine& engine, const RequestOptions& how) {
      return engine.try_transcribe(std::filesystem::path(file.path()), request.options, how);
    };
    run_task<Transcription>(service, exchange, model, submit, [&service, exchange, format = request.format](const Transcription& result) {
      exchange->counts.completion_tokens = static_cast<int>(result.ids.size());
      service.metrics.add("kvik_generated_tokens_total", {{"model", exchange->model}}, static_cast<double>(result.ids.size()));
      exchange->send(written(result, format));
    });
  });
}

}  // namespace kvik::server::openai
