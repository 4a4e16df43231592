// Connections without a model: slow, silent, many and large clients, and the callbacks of the handlers.
#include <atomic>
#include <condition_variable>
#include <gmock/gmock.h>
#include <mutex>
#include <thread>

#include "server/http/http_server.h"
#include "server/raw_client.h"

namespace kvik::server {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A number that one thread counts and another waits for.
class Counter {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++n_;
    changed_.notify_all();
  }
  void wait_for(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_ >= n; });
  }
  int value() {
    const std::lock_guard lock(mutex_);
    return n_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_ = 0;
};

class HttpTest : public testing::Test {
 protected:
  using Handle = std::function<void(Request, std::shared_ptr<Responder>)>;

  void start(const Handle& handle, const HttpLimits& limits = {}) {
    listen(handle, limits);
    server_->start();
  }
  void listen(const Handle& handle, const HttpLimits& limits = {}) {
    const auto gate = [](const Request& request) -> std::optional<Response> {
      if (request.path != "/refused") return std::nullopt;
      return Response{403, "no"};
    };
    server_.emplace("127.0.0.1", 0, limits, HttpHandlers{gate, handle});
  }
  RawClient client(int receive_bytes = 0) const { return RawClient(server_->port(), receive_bytes); }

  static void answer_path(const Request& request, const std::shared_ptr<Responder>& responder) { responder->send({200, request.path}); }
  static std::string get(const std::string& path, const std::string& more = "") { return "GET " + path + " HTTP/1.1\r\n" + more + "\r\n"; }
  static std::string post(const std::string& path, const std::string& body) {
    return "POST " + path + " HTTP/1.1\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  std::optional<HttpServer> server_;
};

TEST_F(HttpTest, RequestsWaitForTheStart) {
  bool is_ready = false;  // TSan sees if a handler reads it before the start
  listen([&](const Request&, const std::shared_ptr<Responder>& responder) { responder->send({200, is_ready ? "ready" : "too early"}); });
  const RawClient early = client();
  ASSERT_TRUE(early.send(get("/a", "connection: close\r\n")));
  is_ready = true;
  server_->start();
  EXPECT_THAT(early.read(), EndsWith("ready"));
}

TEST_F(HttpTest, RequestsOfOneConnectionAreAnsweredInOrder) {
  start([](const Request& request, const std::shared_ptr<Responder>& responder) {
    std::thread([path = request.path, responder] {  // from another thread, in parts
      responder->begin({});
      responder->write(path);
      responder->write("!");
      responder->end();
    })
        .detach();
  });
  const RawClient all = client();
  ASSERT_TRUE(all.send(get("/a") + get("/b") + get("/c", "connection: close\r\n")));
  const std::string answer = all.read();
  const size_t a = answer.find("2\r\n/a\r\n1\r\n!\r\n0\r\n\r\n"), b = answer.find("2\r\n/b\r\n1\r\n!\r\n0\r\n\r\n"),
               c = answer.find("2\r\n/c\r\n");
  EXPECT_TRUE(a < b && b < c && c < answer.size()) << answer;
}

TEST_F(HttpTest, ARefusedRequestIsNotHandledAndItsConnectionCloses) {
  Counter handled;
  start([&](const Request& request, const std::shared_ptr<Responder>& responder) {
    handled.add();
    answer_path(request, responder);
  });
  const RawClient refused = client();
  ASSERT_TRUE(refused.send("POST /refused HTTP/1.1\r\ncontent-length: 5000\r\n\r\n"));
  EXPECT_THAT(refused.read(), EndsWith("connection: close\r\n\r\nno"));
  EXPECT_EQ(handled.value(), 0);
}

TEST_F(HttpTest, TheAnswerToHeadHasNoBody) {
  start(answer_path);
  for (const char* path : {"/path", "/refused"}) {
    const RawClient head = client();
    ASSERT_TRUE(head.send(std::string("HEAD ") + path + " HTTP/1.1\r\nconnection: close\r\n\r\n"));
    EXPECT_THAT(head.read(), EndsWith("\r\n\r\n")) << path;
  }
}

TEST_F(HttpTest, ABodyLargerThanAllowedIsRefused) {
  start(answer_path, {.max_body_bytes = 100});
  const RawClient small = client(), large = client(), chunked = client();
  ASSERT_TRUE(small.send(post("/fits", std::string(100, 'x'))));
  EXPECT_THAT(small.read_until("/fits"), StartsWith("HTTP/1.1 200 "));
  ASSERT_TRUE(large.send(post("/large", std::string(101, 'x'))));
  EXPECT_THAT(large.read(), StartsWith("HTTP/1.1 413 "));
  ASSERT_TRUE(chunked.send("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'x') + "\r\n0\r\n\r\n"));
  EXPECT_THAT(chunked.read(), StartsWith("HTTP/1.1 413 "));
}

// Bodies count from their first byte until they are answered, whether they are complete or not.
TEST_F(HttpTest, BodiesTogetherAreBounded) {
  Counter arrived, told;
  std::vector<std::shared_ptr<Responder>> waiting;
  start(
      [&](const Request& request, const std::shared_ptr<Responder>& responder) {
        if (request.path != "/held") return answer_path(request, responder);
        waiting.push_back(responder);
        arrived.add();
      },
      {.max_buffered_bytes = 1000});
  std::optional<RawClient> held(std::in_place, server_->port());
  ASSERT_TRUE(held->send(post("/held", std::string(600, 'x'))));
  arrived.wait_for(1);
  const RawClient one_more = client();
  ASSERT_TRUE(one_more.send(post("/other", std::string(600, 'x'))));
  EXPECT_THAT(one_more.read(), StartsWith("HTTP/1.1 503 "));
  waiting[0]->on_disconnect([&] { told.add(); });
  held.reset();
  told.wait_for(1);
  const RawClient later = client();
  ASSERT_TRUE(later.send(post("/other", std::string(600, 'x'))));
  EXPECT_THAT(later.read_until("/other"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpTest, ConnectionsBeyondTheLimitAreToldToComeBack) {
  start(answer_path, {.max_connections = 2});
  const RawClient first = client(), second = client();
  for (const RawClient* each : {&first, &second}) {
    ASSERT_TRUE(each->send(get("/here")));
    EXPECT_THAT(each->read_until("/here"), StartsWith("HTTP/1.1 200 "));
  }
  const RawClient third = client();
  const std::string answer = third.read();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("retry-after: "));
  EXPECT_EQ(server_->load().n_cut, 1u);
}

TEST_F(HttpTest, ARequestThatDoesNotArriveInTimeIsA408) {
  start(answer_path, {.header_timeout = milliseconds(50), .body_timeout = milliseconds(50)});
  for (const char* part : {"GET / HT", "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"}) {
    const RawClient slow = client();
    ASSERT_TRUE(slow.send(part));
    EXPECT_THAT(slow.read(), StartsWith("HTTP/1.1 408 ")) << part;
  }
}

TEST_F(HttpTest, AConnectionWithoutARequestIsClosedAfterAWhile) {
  start(answer_path, {.idle_timeout = milliseconds(200)});
  const RawClient silent = client();
  EXPECT_EQ(silent.read(), "");
  const RawClient again = client();
  ASSERT_TRUE(again.send(get("/once")));
  EXPECT_THAT(again.read(), EndsWith("/once"));
  EXPECT_EQ(server_->load().n_cut, 0u);
}

void answer_at_length(const Request&, const std::shared_ptr<Responder>& responder) { responder->send({200, std::string(8 << 20, 'x')}); }

TEST_F(HttpTest, AClientThatReadsNothingIsCut) {
  start(answer_at_length, {.write_timeout = milliseconds(100), .slowest_bytes_per_s = 1});
  const RawClient silent = client(4096);
  ASSERT_TRUE(silent.send(get("/")));
  while (server_->load().n_cut == 0) std::this_thread::yield();
  EXPECT_LT(silent.read().size(), size_t{8 << 20});
  EXPECT_EQ(server_->load().n_cut, 1u);
}

// It takes a little again and again, so that it is never silent.
TEST_F(HttpTest, AClientThatReadsTooSlowlyIsCut) {
  start(answer_at_length, {.write_timeout = milliseconds(1000), .slowest_bytes_per_s = 1 << 30});
  const RawClient slow = client(4096);
  ASSERT_TRUE(slow.send(get("/")));
  size_t n_read = 0;
  for (size_t n = 1; n > 0 && server_->load().n_cut == 0; n_read += n)
    n = slow.read(4096).size(), std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(server_->load().n_cut, 1u);
  EXPECT_LT(n_read, size_t{8 << 20});
}

TEST_F(HttpTest, AStreamThatNobodyReadsIsCutAndItsEndIsTold) {
  Counter gone, written;
  std::atomic<bool> stop = false;
  std::thread writer;
  start(
      [&](const Request&, const std::shared_ptr<Responder>& responder) {
        responder->on_disconnect([&] { gone.add(), stop = true; });
        writer = std::thread([&, responder] {
          responder->begin({});
          for (int i = 0; i < 2000 && !stop; ++i) responder->write(std::string(10'000, 'x'));
          responder->end();
          written.add();
        });
      },
      {.max_unsent_bytes = 100'000, .write_timeout = std::chrono::hours(1)});
  const RawClient silent = client(4096);
  ASSERT_TRUE(silent.send(get("/", "connection: close\r\n")));
  written.wait_for(1);
  EXPECT_LT(silent.read().size(), size_t{2000 * 10'000});
  writer.join();
  EXPECT_EQ(gone.value(), 1);
  EXPECT_EQ(server_->load().n_cut, 1u);
}

// Keeps the responder of a request that has arrived, and counts clients that go.
struct HeldAnswer {
  Counter arrived, gone;
  std::shared_ptr<Responder> responder;

  void operator()(const Request&, const std::shared_ptr<Responder>& of_request) {
    responder = of_request;
    responder->on_disconnect([this] { gone.add(); });
    arrived.add();
  }
};

TEST_F(HttpTest, AClientThatGoesIsToldOnceAndWhatIsSentThenIsDropped) {
  HeldAnswer held;
  start(std::ref(held));
  {
    const RawClient leaves = client();
    ASSERT_TRUE(leaves.send(get("/")));
    held.arrived.wait_for(1);
  }
  held.gone.wait_for(1);
  held.responder->send({200, "too late"});
  held.responder->on_disconnect([&] { held.gone.add(); });  // told at once
  held.gone.wait_for(2);
  server_.reset();
  EXPECT_EQ(held.gone.value(), 2);
  EXPECT_FALSE(held.responder->post([] {}));
}

TEST_F(HttpTest, AnAnswerThatNobodyCompletesClosesTheConnection) {
  start([](const Request&, const std::shared_ptr<Responder>&) {});
  const RawClient waiting = client();
  ASSERT_TRUE(waiting.send(get("/")));
  EXPECT_EQ(waiting.read(), "");
}

TEST_F(HttpTest, StoppingWaitsForAnswersThatRunAndAcceptsNothingNew) {
  HeldAnswer held;
  start(std::ref(held));
  std::optional<RawClient> running(std::in_place, server_->port());
  const RawClient idle = client();
  ASSERT_TRUE(running->send(get("/")));
  held.arrived.wait_for(1);
  std::thread stop([&] { server_->stop(std::chrono::hours(1)); });
  EXPECT_EQ(idle.read(), "");  // closed: from now on the server stops
  EXPECT_FALSE(client().send(get("/")) && !client().read().empty());
  held.responder->send({200, "the end"});
  EXPECT_THAT(running->read(), EndsWith("connection: close\r\n\r\nthe end"));
  running.reset();
  stop.join();
}

// Whoever registers a callback while the server ends is called, or work that it should cancel would go on.
TEST_F(HttpTest, NoCallbackIsLostWhileTheServerStops) {
  for (int round = 0; round < 30; ++round) {
    Counter running, registered, called;
    std::atomic<bool> stopped = false;
    std::vector<std::thread> threads;
    start([&](const Request&, const std::shared_ptr<Responder>& responder) {
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, responder] {
          running.add();
          for (int n = 0; n < 300 && !stopped; ++n) {
            registered.add();
            responder->on_disconnect([&] { called.add(); });
          }
        });
      }
    });
    const RawClient waiting = client();
    ASSERT_TRUE(waiting.send(get("/a")));
    running.wait_for(4);
    server_->stop(milliseconds(0));
    stopped = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(called.value(), registered.value()) << "round " << round;
    server_.reset();
  }
}

TEST_F(HttpTest, StoppingCutsAnswersThatTakeLongerThanTheGraceTime) {
  HeldAnswer held;
  start(std::ref(held));
  const RawClient running = client();
  ASSERT_TRUE(running.send(get("/")));
  held.arrived.wait_for(1);
  server_->stop(milliseconds(1));
  EXPECT_EQ(held.gone.value(), 1);
  EXPECT_EQ(running.read(), "");
}

}  // namespace
}  // namespace kvik::server
