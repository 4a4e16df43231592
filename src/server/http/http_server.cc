#include "server/http/http_server.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "kvik/error.h"
#include "server/http/request_reader.h"

namespace kvik::server {
namespace connections {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Fault = boost::system::error_code;
using Milliseconds = std::chrono::milliseconds;

constexpr int kSendBufferBytes = 128 << 10;  // of the kernel, so that it does not hold megabytes for a client that does not read
constexpr size_t kReadBytes = 16 << 10;
constexpr Milliseconds kLinger{1000};  // for the client to read an answer before the connection is closed

class Connection;

// What connections share. Used on the thread of the server; counters on any.
struct Shared {
  Shared(const HttpLimits& with, HttpHandlers call) : limits(with), handlers(std::move(call)) {}

  // Runs `work` on the thread of the server, later. False if that has ended: nothing that was posted before is lost.
  template <class Work>
  bool post(Work work) {
    const std::lock_guard lock(post_mutex);
    if (has_ended) return false;
    asio::post(context, std::move(work));
    return true;
  }
  // The same, but at once if this is the thread of the server.
  template <class Work>
  bool dispatch(Work work) {
    if (!context.get_executor().running_in_this_thread()) return post(std::move(work));
    work();
    return true;
  }

  const HttpLimits limits;
  const HttpHandlers handlers;
  asio::io_context context{1};
  std::mutex post_mutex;  // for has_ended
  bool has_ended = false;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  bool stopping = false;
  size_t buffered_bytes = 0;
  std::atomic<size_t> n_connections{0}, n_cut{0};
  std::mutex mutex;  // for n_connections becoming 0
  std::condition_variable empty;
};

// Reads one request after the other. While one is answered it goes on reading, to see the client go.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> shared, tcp::socket socket)
      : shared_holder_(std::move(shared)),
        shared_(*shared_holder_),
        socket_(std::move(socket)),
        read_timer_(shared_.context),
        write_timer_(shared_.context),
        end_timer_(shared_.context),
        reader_(shared_.limits) {
    Fault ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
    peer_ = socket_.remote_endpoint(ignored).address().to_string();
  }

  void start() {
    wait_for_read(shared_.limits.idle_timeout);
    read();
  }
  void refuse(Response response) {
    closes_ = true;
    is_answering_ = true;
    send(std::move(response));
  }
  void close();
  void cut() {
    if (socket_.is_open()) ++shared_.n_cut;  // two timers may have expired
    close();
  }
  void abandon() {
    if (!is_complete_) close();
  }
  void close_if_idle() {
    closes_ = true;
    if (!is_answering_ && reader_.is_empty()) close();
  }

  // Of the answer to the current request; `number` says which one the caller means.
  void send(Response response);
  void begin(Response head);
  void write(std::string_view part);
  void end();
  bool is_current(uint64_t number) const { return is_answering_ && number == n_requests_ && socket_.is_open(); }
  void on_disconnect(std::function<void()> call) { on_disconnect_.push_back(std::move(call)); }
  Shared& shared() { return shared_; }

 private:
  void read();
  void take_input();
  void dispatch();
  void fail(Response response);
  void wait_for_read(Milliseconds timeout);
  void flush();
  void complete();
  void answered();
  void linger();
  void append_head(const Response& response, bool in_parts);

  const std::shared_ptr<Shared> shared_holder_;
  Shared& shared_;
  tcp::socket socket_;
  asio::steady_timer read_timer_, write_timer_, end_timer_;
  RequestReader reader_;
  char input_[kReadBytes];
  size_t counted_bytes_ = 0;  // of Shared::buffered_bytes
  std::string peer_;

  uint64_t n_requests_ = 0;
  bool is_answering_ = false;  // a request was handed out, or refused
  bool in_parts_ = false, is_chunked_ = false, no_body_ = false;
  bool is_complete_ = false;  // the whole answer is in unsent_
  bool closes_ = false;       // after this answer
  bool is_reading_ = false;
  bool is_lingering_ = false;  // only waits for the client to close
  std::string unsent_, sending_;
  size_t n_sent_ = 0;
  bool is_sending_ = false;
  std::vector<std::function<void()>> on_disconnect_;
};

// A handle to one answer.
class Answer final : public Responder {
 public:
  Answer(std::shared_ptr<Connection> connection, uint64_t number) : connection_(std::move(connection)), number_(number) {}
  // Nobody will complete it. Behind what other threads have sent, which may not have been done yet.
  ~Answer() override {
    connection_->shared().post([connection = connection_, number = number_] {
      if (connection->is_current(number)) connection->abandon();
    });
  }

  void send(Response response) override {
    post_to([response = std::move(response)](Connection& connection) mutable { connection.send(std::move(response)); });
  }
  void begin(Response head) override {
    post_to([head = std::move(head)](Connection& connection) mutable { connection.begin(std::move(head)); });
  }
  void write(std::string_view part) override {
    post_to([part = std::string(part)](Connection& connection) { connection.write(part); });
  }
  void end() override {
    post_to([](Connection& connection) { connection.end(); });
  }
  bool post(std::function<void()> work) override { return connection_->shared().post(std::move(work)); }
  void on_disconnect(std::function<void()> call) override {
    const bool will_run = connection_->shared().dispatch([connection = connection_, number = number_, call] {
      if (connection->is_current(number)) return connection->on_disconnect(call);
      call();
    });
    if (!will_run) call();
  }

 private:
  template <class Work>
  void post_to(Work work) {
    connection_->shared().dispatch([connection = connection_, number = number_, work = std::move(work)]() mutable {
      if (connection->is_current(number)) work(*connection);
    });
  }

  std::shared_ptr<Connection> connection_;
  uint64_t number_;
};

void Connection::close() {
  if (!socket_.is_open()) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  Fault ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  read_timer_.cancel();
  write_timer_.cancel();
  end_timer_.cancel();
  shared_.buffered_bytes -= counted_bytes_;
  counted_bytes_ = 0;
  for (const std::function<void()>& call : std::exchange(on_disconnect_, {})) call();
  shared_.connections.erase(self);
  const std::lock_guard lock(shared_.mutex);
  shared_.n_connections = shared_.connections.size();
  shared_.empty.notify_all();
}

void Connection::wait_for_read(Milliseconds timeout) {
  read_timer_.expires_after(timeout);
  read_timer_.async_wait([self = shared_from_this()](const Fault& fault) {
    if (fault || self->is_answering_ || !self->socket_.is_open()) return;
    if (self->read_timer_.expiry() > std::chrono::steady_clock::now()) return;  // it was set again
    if (self->reader_.is_empty() || self->is_lingering_) return self->close();
    ++self->shared_.n_cut;
    self->fail({408, R"({"error": {"message": "the request did not arrive in time", "type": "invalid_request_error"}})"});
  });
}

void Connection::read() {
  if (is_reading_ || !socket_.is_open() || (is_answering_ && reader_.is_full())) return;
  is_reading_ = true;
  socket_.async_read_some(asio::buffer(input_), [self = shared_from_this()](const Fault& fault, size_t n) {
    self->is_reading_ = false;
    if (fault) return self->close();
    const bool was_empty = self->reader_.is_empty();
    if (!self->is_lingering_) self->reader_.add({self->input_, n});
    if (!self->is_answering_ && !self->is_lingering_) {
      if (was_empty) self->wait_for_read(self->shared_.limits.header_timeout);
      self->take_input();
    }
    self->read();
  });
}

// Goes on with the request that arrives.
void Connection::take_input() {
  const bool had_header = reader_.has_header();
  const RequestReader::Status status = reader_.read();
  shared_.buffered_bytes += reader_.body_bytes() - counted_bytes_;
  counted_bytes_ = reader_.body_bytes();
  if (status == RequestReader::Status::kFailed) return fail(reader_.failure());
  if (reader_.has_header() && !had_header) {
    reader_.request().peer = peer_;
    if (std::optional<Response> refusal = shared_.handlers.gate(reader_.request())) return fail(std::move(*refusal));
    if (status == RequestReader::Status::kMore) {
      wait_for_read(shared_.limits.body_timeout);
      if (reader_.expects_continue()) {
        unsent_ += "HTTP/1.1 100 Continue\r\n\r\n";
        flush();
      }
    }
    if (reader_.has_body_left()) return take_input();
  }
  if (shared_.buffered_bytes > shared_.limits.max_buffered_bytes)
    return fail({503,
                 R"({"error": {"message": "too many large requests at once; try again", "type": "server_error"}})",
                 "application/json",
                 {{"retry-after", "1"}}});
  if (status == RequestReader::Status::kDone) dispatch();
}

void Connection::dispatch() {
  is_answering_ = true;
  ++n_requests_;
  closes_ |= !reader_.keeps_alive() || shared_.stopping;
  is_chunked_ = reader_.is_http_1_1();
  no_body_ = reader_.request().method == "HEAD";
  shared_.handlers.handle(reader_.take(), std::make_shared<Answer>(shared_from_this(), n_requests_));
}

// An answer by the server itself; what else the client sends is not read.
void Connection::fail(Response response) {
  ++n_requests_;
  no_body_ = reader_.has_header() && reader_.request().method == "HEAD";
  refuse(std::move(response));
}

void Connection::append_head(const Response& response, bool in_parts) {
  unsent_ += fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  if (response.status != 204) unsent_ += fmt::format("content-type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) unsent_ += fmt::format("{}: {}\r\n", name, value);
  if (!in_parts) {
    if (response.status != 204) unsent_ += fmt::format("content-length: {}\r\n", response.body.size());
  } else if (is_chunked_) {
    unsent_ += "transfer-encoding: chunked\r\n";
  } else {
    closes_ = true;  // the end of the connection is the end of the answer
  }
  unsent_ += closes_ ? "connection: close\r\n\r\n" : "connection: keep-alive\r\n\r\n";
}

void Connection::send(Response response) {
  if (in_parts_ || is_complete_) return;
  append_head(response, false);
  if (!no_body_) unsent_ += response.body;
  complete();
}

void Connection::begin(Response head) {
  if (in_parts_ || is_complete_) return;
  append_head(head, true);
  in_parts_ = true;
  flush();
}

void Connection::write(std::string_view part) {
  if (!in_parts_ || is_complete_ || part.empty() || no_body_) return;
  if (unsent_.size() > shared_.limits.max_unsent_bytes) return cut();
  if (is_chunked_) unsent_ += fmt::format("{:x}\r\n", part.size());
  unsent_ += part;
  if (is_chunked_) unsent_ += "\r\n";
  flush();
}

void Connection::end() {
  if (!in_parts_ || is_complete_) return;
  if (is_chunked_ && !no_body_) unsent_ += "0\r\n\r\n";
  complete();
}

// What is left is sent in a bounded time, so that a client which takes a byte now and then does not hold it for ever.
void Connection::complete() {
  is_complete_ = true;
  const size_t n_left = unsent_.size() + sending_.size() - n_sent_;
  const auto seconds = std::chrono::seconds(n_left / std::max<size_t>(1, shared_.limits.slowest_bytes_per_s));
  end_timer_.expires_after(shared_.limits.write_timeout + seconds);
  end_timer_.async_wait([self = shared_from_this()](const Fault& fault) {
    if (fault || !self->is_complete_ || self->end_timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->cut();
  });
  flush();
}

void Connection::flush() {
  if (is_sending_ || !socket_.is_open()) return;
  if (n_sent_ == sending_.size()) {
    n_sent_ = 0;
    sending_.clear();
    std::swap(sending_, unsent_);
  }
  if (sending_.empty()) {
    if (is_complete_) answered();
    return;
  }
  is_sending_ = true;
  write_timer_.expires_after(shared_.limits.write_timeout);
  write_timer_.async_wait([self = shared_from_this()](const Fault& fault) {
    if (fault || !self->is_sending_ || self->write_timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->cut();
  });
  socket_.async_write_some(asio::buffer(sending_.data() + n_sent_, sending_.size() - n_sent_),
                           [self = shared_from_this()](const Fault& fault, size_t n) {
                             self->is_sending_ = false;
                             if (fault) return self->close();
                             self->n_sent_ += n;
                             self->flush();
                           });
}

// The answer is on its way: the next request, which may have arrived already.
void Connection::answered() {
  write_timer_.cancel();
  end_timer_.cancel();
  is_answering_ = is_complete_ = in_parts_ = no_body_ = false;
  on_disconnect_.clear();
  shared_.buffered_bytes -= counted_bytes_;
  counted_bytes_ = 0;
  if (sending_.capacity() > kReadBytes) std::string().swap(sending_);  // an idle connection keeps little
  if (closes_ || shared_.stopping) return linger();
  wait_for_read(reader_.is_empty() ? shared_.limits.idle_timeout : shared_.limits.header_timeout);
  if (!reader_.is_empty()) take_input();
  read();
}

// Closing a socket with unread input would destroy the answer before the client has read it.
void Connection::linger() {
  is_lingering_ = true;
  reader_.drop_input();
  Fault ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  wait_for_read(kLinger);
  read();
}

tcp::endpoint resolve(asio::io_context& context, const std::string& host, int port) {
  Fault fault;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, fault);
  if (fault || found.empty()) throw Error(Code::kIo, fmt::format("'{}' is not an address of this machine: {}", host, fault.message()));
  return found.begin()->endpoint();
}

}  // namespace connections

using namespace connections;

struct HttpServer::State : Shared, std::enable_shared_from_this<HttpServer::State> {
  State(const HttpLimits& with, HttpHandlers call)
      : Shared(with, std::move(call)), acceptor(context), retry(context), work(context.get_executor()) {}

  void listen(const std::string& host, int on_port) {
    const tcp::endpoint endpoint = resolve(context, host, on_port);
    Fault fault;
    acceptor.open(endpoint.protocol(), fault);
    if (!fault) acceptor.set_option(tcp::acceptor::reuse_address(true), fault);
    if (!fault) acceptor.bind(endpoint, fault);
    if (!fault) acceptor.listen(asio::socket_base::max_listen_connections, fault);
    if (fault) throw Error(Code::kIo, fmt::format("cannot listen on {} port {}: {}", host, on_port, fault.message()));
    const tcp::endpoint local = acceptor.local_endpoint();
    port = local.port();
    is_loopback = local.address().is_loopback();
  }

  void accept() {
    acceptor.async_accept([this](const Fault& fault, tcp::socket socket) {
      if (stopping || !acceptor.is_open()) return;
      if (fault) {  // such as too many open files: some close before long
        retry.expires_after(std::chrono::milliseconds(50));
        retry.async_wait([this](const Fault& stopped) {
          if (!stopped) accept();
        });
        return;
      }
      add(std::move(socket));
      accept();
    });
  }

  void add(tcp::socket socket) {
    const auto connection = std::make_shared<Connection>(shared_from_this(), std::move(socket));
    const bool full = connections.size() >= static_cast<size_t>(limits.max_connections);
    connections.insert(connection);
    n_connections = connections.size();
    if (!full) return connection->start();
    ++n_cut;
    connection->refuse({503,
                        R"({"error": {"message": "too many connections; try again", "type": "server_error"}})",
                        "application/json",
                        {{"retry-after", "1"}}});
  }

  tcp::acceptor acceptor;
  asio::steady_timer retry;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  int port = 0;
  bool is_loopback = false;
  std::thread thread;
};

HttpServer::HttpServer(const std::string& host, int port, const HttpLimits& limits, HttpHandlers handlers)
    : state_(std::make_shared<State>(limits, std::move(handlers))) {
  state_->listen(host, port);
}

void HttpServer::start() {
  state_->accept();
  state_->thread = std::thread([state = state_.get()] { state->context.run(); });
}

HttpServer::~HttpServer() { stop(std::chrono::milliseconds(0)); }

int HttpServer::port() const { return state_->port; }
bool HttpServer::is_loopback() const { return state_->is_loopback; }
HttpLoad HttpServer::load() const { return {state_->n_connections, state_->n_cut}; }

void HttpServer::stop(std::chrono::milliseconds grace) {
  if (!state_->thread.joinable()) return;
  asio::post(state_->context, [this] {
    Fault ignored;
    state_->stopping = true;
    state_->acceptor.close(ignored);
    state_->retry.cancel();
    const auto all = state_->connections;
    for (const std::shared_ptr<Connection>& connection : all) connection->close_if_idle();
  });
  {
    std::unique_lock lock(state_->mutex);
    state_->empty.wait_for(lock, grace, [&] { return state_->n_connections == 0; });
  }
  asio::post(state_->context, [this] {
    const auto all = state_->connections;
    for (const std::shared_ptr<Connection>& connection : all) connection->close();
    state_->work.reset();
  });
  state_->thread.join();
  {
    const std::lock_guard lock(state_->post_mutex);
    state_->has_ended = true;
  }
  state_->context.restart();
  state_->context.poll();  // what was posted in between
}

}  // namespace kvik::server
