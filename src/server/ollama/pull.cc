#include <fmt/format.h>

#include "kvik/error.h"
#include "server/ollama/ollama.h"
#include "server/ollama/request.h"

namespace kvik::server::ollama {
namespace {

constexpr std::chrono::milliseconds kBetweenReports{100};

// Lines about a download, at most ten per second.
class PullReport {
 public:
  PullReport(std::shared_ptr<Exchange> exchange, bool streams) : exchange_(std::move(exchange)), streams_(streams) {}

  void write(const Json& json) {
    if (!streams_) return;
    if (!std::exchange(has_begun_, true)) exchange_->begin("application/x-ndjson");
    exchange_->write(dump(json) + "\n");
  }
  void progress(std::string_view file, int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kBetweenReports) return;
    last_ = now;
    write({{"status", fmt::format("pulling {}", file)}, {"digest", file}, {"total", total}, {"completed", done}});
  }
  void success() {
    const Json last = {{"status", "success"}};
    if (!streams_) return exchange_->send(last);
    write(last);
    exchange_->end();
  }
  void fail(const ApiError& error) {
    if (!has_begun_) return exchange_->fail(error);
    write({{"error", error.what()}});
    exchange_->end();
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  bool streams_;
  bool has_begun_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace

void pull(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  const std::string name = body.text("model").value_or(body.text("name").value_or(""));
  if (name.empty()) body.fail("model", "a string");
  const auto report = std::make_shared<PullReport>(exchange, body.boolean("stream").value_or(true));
  if (service.registry.has(name)) {
    report->write({{"status", "pulling manifest"}});
    return report->success();
  }
  if (!service.options.pull)
    throw ApiError(403, "", "this server does not download models; start it with --allow-pull, or use 'kvik pull'");
  exchange->on_disconnect([] {});
  const bool posted = service.downloads.try_post([&service, exchange, name, report] {
    if (exchange->is_gone()) return;
    try {
      report->write({{"status", "pulling manifest"}});
      service.options.pull(
          name, [&](std::string_view file, int64_t done, int64_t total) { report->progress(file, done, total); },
          [&] { return exchange->is_gone() || service.stopping; });
      service.registry.add(name);  // unless another client has pulled it meanwhile
      report->success();
    } catch (const Error& e) { report->fail(e.code() == Code::kIo ? ApiError(502, "", e.what()) : current_api_error()); } catch (...) {
      report->fail(current_api_error());
    }
  });
  if (!posted) throw ApiError(429, "rate_limit_exceeded", "too many downloads are waiting; try again later");
}

}  // namespace kvik::server::ollama
