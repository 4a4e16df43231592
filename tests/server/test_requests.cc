#include <gmock/gmock.h>

#include "server/gate.h"
#include "server/http/http_server.h"
#include "server/http/request_reader.h"
#include "server/json/fields.h"
#include "server/json/multipart.h"
#include "server/ollama/request.h"
#include "server/openai/request.h"
#include "server/service/metrics.h"

namespace kvik::server {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ApiError& e) { return e.field() + ": " + e.what(); }
  return "";
}

TEST(Fields, WrongTypesAndRangesNameTheField) {
  const Json json = parse_body(R"({"a": 5, "b": "x", "c": [1], "d": {"e": true}, "f": null, "g": 1.5, "h": 16.0})");
  const Fields body(json);
  EXPECT_THAT(refusal([&] { body.text("a"); }), HasSubstr("a: 'a' is 5; a string was expected"));
  EXPECT_THAT(refusal([&] { body.integer("a", 0, 4); }), HasSubstr("from 0 to 4"));
  EXPECT_THAT(refusal([&] { body.integer("g", 0, 4); }), HasSubstr("whole number"));
  EXPECT_THAT(refusal([&] { body.number("b", 0, 4); }), HasSubstr("'b' is \"x\""));
  EXPECT_THAT(refusal([&] { body.texts("c", 4); }), HasSubstr("'c' is a list of 1"));
  EXPECT_THAT(refusal([&] { body.object("d")->text("e"); }), HasSubstr("d.e: 'd.e' is true"));
  EXPECT_THAT(refusal([&] { body.required_text("z"); }), HasSubstr("'z' is missing"));
  EXPECT_EQ(body.text("f"), std::nullopt);
  EXPECT_EQ(body.integer("h", 0, 100), 16);
}

TEST(Fields, WholeNumbersAreReadUpToTheLastBit) {
  const Json json = parse_body(
      R"({"a": 9223372036854775807, "b": -9223372036854775808, "c": 9223372036854775808, "d": 9223372036854775808.0, "e": 18446744073709551615,
          "f": -9223372036854775808.0, "g": 1e300, "h": true})");
  const Fields body(json);
  EXPECT_EQ(body.integer("a", INT64_MIN, INT64_MAX), INT64_MAX);
  EXPECT_EQ(body.integer("b", INT64_MIN, INT64_MAX), INT64_MIN);
  EXPECT_EQ(body.integer("f", INT64_MIN, INT64_MAX), INT64_MIN);
  for (const char* name : {"c", "d", "e", "g", "h"})
    EXPECT_THAT(refusal([&] { body.integer(name, INT64_MIN, INT64_MAX); }), HasSubstr("whole number")) << name;
}

TEST(OpenAi, ABiasIsANumber) {
  for (const char* bias : {"null", "\"1\"", "[]", "1e9", "-101"}) {
    const Json json = parse_body(R"({"model": "m", "logit_bias": {"7": )" + std::string(bias) + "}}");
    EXPECT_THAT(refusal([&] { openai::read_text_request(Fields(json), {}); }), HasSubstr("logit_bias.7: 'logit_bias.7' is ")) << bias;
  }
}

TEST(Fields, BodiesThatAreTooDeepOrWideAreRefused) {
  const auto nested = [](size_t n) { return "{\"a\": " + std::string(n, '[') + std::string(n, ']') + "}"; };
  EXPECT_EQ(refusal([&] { parse_body(nested(kMostNested - 1)); }), "");
  for (const size_t n : {size_t{kMostNested} + 1, size_t{1'000'000}})
    EXPECT_THAT(refusal([&] { parse_body(nested(n)); }), HasSubstr("nested")) << n;
  std::string wide = "{";
  for (int i = 0; i <= kMostKeys; ++i) wide += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  EXPECT_THAT(refusal([&] { parse_body(wide + "}"); }), HasSubstr("keys"));
  EXPECT_THAT(refusal([] { parse_body("{\"a\": }"); }), HasSubstr("byte 7"));
}

TEST(OpenAi, ChoicesHaveSeedsThatFollowEachOther) {
  const Json json = parse_body(R"({"model": "m", "n": 2, "best_of": 3, "seed": 9, "max_tokens": 4, "logit_bias": {"7": -1.5}})");
  const openai::TextRequest request = openai::read_text_request(Fields(json), {});
  const std::vector<GenerateOptions> choices = request.choices();
  ASSERT_EQ(choices.size(), 3);
  EXPECT_EQ(choices[2].sampling.seed, 11);
  EXPECT_EQ(choices[0].max_tokens, 4);
  EXPECT_EQ(choices[0].sampling.logit_bias->front(), std::pair(TokenId{7}, -1.5));
  EXPECT_TRUE(choices[0].logprobs) << "the best ones are chosen by them";
  EXPECT_FALSE(request.shows_logprobs);
}

TEST(Ollama, DurationsAreRead) {
  using std::chrono::seconds;
  EXPECT_EQ(ollama::parse_duration("5m"), seconds(300));
  EXPECT_EQ(ollama::parse_duration("1h30m"), seconds(5400));
  EXPECT_EQ(ollama::parse_duration("300ms"), seconds(1));
  EXPECT_EQ(ollama::parse_duration("0"), seconds(0));
  EXPECT_EQ(ollama::parse_duration("-1"), seconds(-1));
  for (const char* wrong : {"", "-", "soon", "5x", "m", "1e400", "9999999999999h"})
    EXPECT_EQ(ollama::parse_duration(wrong), std::nullopt) << wrong;
}

TEST(Multipart, PartsAreViewsOfTheBody) {
  const std::string body =
      "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\ncontent-type: audio/wav\r\n\r\n\r\n--bytes\r\n--b\r\n"
      "Content-Disposition: form-data; name=model\r\n\r\nm\r\n--b--\r\n";
  const std::vector<FormPart> parts = parse_multipart("multipart/form-data; boundary=\"b\"", body);
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[0].filename, "a.wav");
  EXPECT_EQ(parts[0].content, "\r\n--bytes");
  EXPECT_EQ(parts[1].name, "model");
  EXPECT_EQ(parts[1].content, "m");
}

TEST(Metrics, AreInThePrometheusTextFormat) {
  MetricTable table;
  table.describe("t_seconds", "Times.");
  table.add("n_total", {{"model", "a\"b\\c\nd"}}, 2);
  for (const double seconds : {0.0005, 0.02, 1000.0}) table.observe("t_seconds", {}, seconds);
  const std::string text = table.text();
  EXPECT_THAT(text, HasSubstr("n_total{model=\"a\\\"b\\\\c\\nd\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE t_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("t_seconds_bucket{le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("t_seconds_bucket{le=\"0.025\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("t_seconds_bucket{le=\"60\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("t_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_EQ(table.value("t_seconds", {}), 3);
}

TEST(RequestReader, ARequestMayArriveInAnyPieces) {
  const std::string post = "POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nX-Y: z\r\nContent-Length: 5\r\n\r\nhello";
  const std::string text = "\r\n" + post + "\r\n\r\nGET / HTTP/1.1\r\n\r\n";  // empty lines before a request are ignored
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    const HttpLimits limits;
    RequestReader reader(limits);
    std::vector<Request> requests;
    for (size_t i = 0; i < text.size(); i += piece) {
      reader.add(std::string_view(text).substr(i, piece));
      for (bool more = true; more;) {
        const bool had_header = reader.has_header();
        const RequestReader::Status status = reader.read();
        ASSERT_NE(status, RequestReader::Status::kFailed) << reader.failure().body;
        if (status == RequestReader::Status::kDone) requests.push_back(reader.take());
        more = status == RequestReader::Status::kDone ? !reader.is_empty() : reader.has_header() && !had_header && reader.has_body_left();
      }
    }
    ASSERT_EQ(requests.size(), 2) << piece;
    EXPECT_EQ(requests[0].path, "/a b");
    EXPECT_EQ(requests[0].query, "x=1");
    EXPECT_EQ(requests[0].header("x-y"), "z");
    EXPECT_EQ(requests[0].body, "hello");
    EXPECT_TRUE(reader.is_empty());
  }
}

TEST(Gate, OnlyTheNamesOfThisMachineAreAnswered) {
  const ServeOptions options;
  const Gate gate(options, true);
  const auto status = [&](Headers headers) {
    const std::optional<Response> refused = gate.refusal({.method = "GET", .path = "/health", .headers = std::move(headers)});
    return refused ? refused->status : 200;
  };
  EXPECT_EQ(status({{"host", "localhost:80"}}), 200);
  EXPECT_EQ(status({{"host", "127.0.0.1"}}), 200);
  EXPECT_EQ(status({{"host", "[::1]:80"}}), 200);
  EXPECT_EQ(status({{"host", "evil.example"}}), 421);
  EXPECT_EQ(status({{"host", "127.0.0.1.evil.example"}}), 421);
  EXPECT_EQ(status({{"host", "localhost"}, {"origin", "http://localhost"}}), 200);
  EXPECT_EQ(status({{"host", "localhost"}, {"origin", "null"}}), 403);
}

}  // namespace
}  // namespace kvik::server
