// The whole server in this process, so that sanitizers see its threads: requests, disconnects and shutdown at the same time.
#include <gmock/gmock.h>
#include <thread>

#include "base/json.h"
#include "kvik/kvik.h"
#include "kvik/serve.h"
#include "server/raw_client.h"
#include "support/paths.h"

namespace kvik {
namespace {

using testing::HasSubstr;

std::string fable() { return (testing_support::source_root() / "models" / "fable").string(); }

// Sends a request on a connection of its own and reads the answer, or its first `most` bytes.
std::string ask(int port, const std::string& path, const std::string& body, size_t most = SIZE_MAX) {
  const RawClient client(port);
  const std::string method = body.empty() ? "GET" : "POST";
  client.send(method + " " + path + " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  return client.read(most);
}

std::string body_of(const std::string& answer) { return answer.substr(std::min(answer.size(), answer.find("\r\n\r\n") + 4)); }

TEST(Server, RequestsOfManyThreadsGetTheTextTheyWouldGetAlone) {
  const Model model = Model::load(fable());
  ServeOptions options;
  options.port = 0;
  options.max_sequences = 8;
  Server server({fable()}, options);
  std::vector<std::string> texts(6), expected;
  for (size_t i = 0; i < texts.size(); ++i)
    expected.push_back(model.generate("Once upon a time", {.max_tokens = 10, .sampling = {.temperature = 0.9, .seed = i}}).text());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      ask(server.port(), "/v1/completions",
          R"({"model": "fable", "prompt": "Once", "max_tokens": 300, "stream": true, "ignore_eos": true})", 600);  // goes early
      const Json body = {{"model", "fable"}, {"prompt", "Once upon a time"}, {"max_tokens", 10}, {"temperature", 0.9}, {"seed", i}};
      const Json answer = Json::parse(body_of(ask(server.port(), "/v1/completions", body.dump())), nullptr, false);
      if (answer.contains("choices")) texts[i] = answer["choices"][0]["text"];
      ask(server.port(), "/metrics", "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts, expected);
}

TEST(Server, StopsWhileRequestsRun) {
  ServeOptions options;
  options.port = 0;
  options.grace = std::chrono::seconds(0);
  std::optional<Server> server(std::in_place, std::vector<std::string>{fable()}, options);
  const int port = server->port();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(
        [=] { ask(port, "/v1/completions", R"({"model": "fable", "prompt": "Once", "max_tokens": 900, "n": 4, "temperature": 1})"); });
  while (ask(port, "/health", "").find("\"running\":0") != std::string::npos) {}
  server->stop();
  server.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ask(port, "/health", ""), "");
}

TEST(Server, BadOptionsAreErrors) {
  ServeOptions options;
  options.port = 0;
  EXPECT_THROW(Server({}, options), Error);
  EXPECT_THROW(Server({fable(), fable()}, options), Error);
  options.host = "0.0.0.0";
  EXPECT_THROW(Server({fable()}, options), Error);
  options.api_key = "key";
  EXPECT_THAT(ask(Server({fable()}, options).port(), "/v1/models", ""), HasSubstr("401"));
}

}  // namespace
}  // namespace kvik
