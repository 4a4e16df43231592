#include "server/ollama/request.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace kvik::server::ollama {
namespace {

constexpr size_t kMostStops = 64;
constexpr int64_t kMostTopLogprobs = 20;
constexpr double kLongestSeconds = 1e9;

double seconds_of(std::string_view unit) {
  if (unit == "ns") return 1e-9;
  if (unit == "us" || unit == "\xC2\xB5s") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m") return 60;
  return unit == "h" ? 3600 : std::nan("");
}

Sampling read_sampling(const Fields& options) {
  Sampling sampling;
  sampling.temperature = options.number("temperature", 0, 100);
  sampling.top_p = options.number("top_p", 0, 1);
  sampling.min_p = options.number("min_p", 0, 1);
  sampling.typical_p = options.number("typical_p", 0, 1);
  sampling.presence_penalty = options.number("presence_penalty", -100, 100);
  sampling.frequency_penalty = options.number("frequency_penalty", -100, 100);
  sampling.repetition_penalty = options.number("repeat_penalty", 0.01, 100);
  if (const auto top_k = options.integer("top_k", -1, 1 << 30)) sampling.top_k = static_cast<int>(std::max<int64_t>(0, *top_k));
  if (const auto seed = options.integer("seed", INT64_MIN, INT64_MAX)) sampling.seed = static_cast<uint64_t>(*seed);
  return sampling;
}

// true, false, or how much: "low", "medium", "high".
Json read_think(const Fields& body) {
  const Json* const think = body.find("think");
  if (think == nullptr || *think == "") return Json::object();
  if (think->is_boolean()) return {{"enable_thinking", *think}};
  return {{"enable_thinking", true}, {"reasoning_effort", *body.text("think")}};
}

std::optional<int> read_logprobs(const Fields& body) {
  const auto top = body.integer("top_logprobs", 0, kMostTopLogprobs);
  if (!body.boolean("logprobs").value_or(false)) return std::nullopt;
  return static_cast<int>(top.value_or(0));
}

}  // namespace

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  double seconds = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    double number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (fault != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const size_t unit = std::min(text.find_first_of("0123456789."), text.size());
    seconds += number * seconds_of(text.substr(0, unit));
    text.remove_prefix(unit);
  }
  if (!(seconds >= 0 && seconds <= kLongestSeconds)) return std::nullopt;
  return std::chrono::seconds(is_negative && seconds > 0 ? -1 : static_cast<int64_t>(std::ceil(seconds)));
}

std::optional<std::chrono::seconds> read_keep_alive(const Fields& body) {
  const Json* const value = body.find("keep_alive");
  if (value == nullptr) return std::nullopt;
  std::optional<std::chrono::seconds> time;
  if (value->is_string()) time = parse_duration(value->get_ref<const std::string&>());
  if (value->is_number()) time = parse_duration(fmt::format("{:f}", value->get<double>()));
  if (!time) body.fail("keep_alive", "seconds, or a time such as \"5m\"");
  return time;
}

TextRequest read_text_request(const Fields& body, const ServeOptions& limits) {
  TextRequest request;
  request.model = body.required_text("model");
  request.stream = body.boolean("stream").value_or(true);
  request.keep_alive = read_keep_alive(body);
  request.template_variables = read_think(body);
  request.options.logprobs = read_logprobs(body);
  const std::optional<Fields> options = body.object("options");
  if (!options) return request;
  request.options.sampling = read_sampling(*options);
  request.options.stop = options->texts("stop", kMostStops);
  const auto most = options->integer("num_predict", -2, limits.max_tokens);
  if (most && *most >= 0) request.options.max_tokens = static_cast<int>(*most);
  return request;
}

}  // namespace kvik::server::ollama
