#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

namespace kvik::server {
namespace {

namespace http = boost::beast::http;
using HttpError = http::error;

constexpr size_t kMostPipelinedBytes = 64 << 10;  // that wait for their turn

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

}  // namespace

struct RequestReader::Parser : http::request_parser<http::string_body> {};

RequestReader::RequestReader(const HttpLimits& limits) : limits_(limits) { begin(); }
RequestReader::~RequestReader() = default;

void RequestReader::begin() {
  parser_ = std::make_unique<Parser>();
  parser_->header_limit(static_cast<uint32_t>(limits_.max_header_bytes));
  parser_->body_limit(limits_.max_body_bytes);
  request_ = {};
  has_header_ = is_done_ = has_begun_ = expects_continue_ = false;
}

bool RequestReader::is_empty() const { return input_.empty() && !has_begun_; }
bool RequestReader::is_full() const { return input_.size() >= kMostPipelinedBytes; }
size_t RequestReader::body_bytes() const { return parser_->get().body().size(); }

RequestReader::Status RequestReader::fail(int status, std::string_view sentence) {
  failure_ = {status,
              fmt::format(R"({{"error": {{"message": "{}", "type": "invalid_request_error", "code": null, "param": null}}}})", sentence)};
  return Status::kFailed;
}

// Some clients end a body with a line that its length does not count.
void RequestReader::drop_empty_lines() {
  size_t n = 0;
  while (std::string_view(input_).substr(n).starts_with("\r\n")) n += 2;
  input_.erase(0, n);
}

RequestReader::Status RequestReader::read() {
  if (!has_begun_) drop_empty_lines();
  if (!has_begun_ && (input_.empty() || input_ == "\r")) return Status::kMore;
  parser_->eager(has_header_);
  boost::system::error_code fault;
  size_t n_read = 0;
  while (n_read < input_.size() && !is_done_) {
    const size_t n = parser_->put(boost::asio::buffer(input_.data() + n_read, input_.size() - n_read), fault);
    n_read += n;
    has_begun_ = true;
    is_done_ = !fault && parser_->is_done();
    if (fault || (!has_header_ && parser_->is_header_done())) break;
    if (n == 0) break;
  }
  input_.erase(0, n_read);
  if (fault == HttpError::need_more) fault = {};
  if (fault == HttpError::header_limit) return fail(431, fmt::format("the header has more than {} bytes", limits_.max_header_bytes));
  if (fault == HttpError::body_limit) return fail(413, fmt::format("the body has more than {} bytes", limits_.max_body_bytes));
  if (fault) return fail(400, fmt::format("this is not an HTTP/1.1 request: {}", fault.message()));
  if (!has_header_ && parser_->is_header_done()) {
    has_header_ = true;
    if (const Status status = take_header(); status == Status::kFailed) return status;
  }
  return is_done_ ? Status::kDone : Status::kMore;
}

RequestReader::Status RequestReader::take_header() {
  const auto& message = parser_->get();
  is_http_1_1_ = message.version() == 11;
  if (message.version() != 11 && message.version() != 10) return fail(400, "HTTP/1.1 or HTTP/1.0 was expected");
  keeps_alive_ = message.keep_alive();
  request_.method = std::string(message.method_string());
  for (const auto& field : message)
    request_.headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}), std::string(field.value()));
  const auto count = [&](std::string_view name) {
    return std::ranges::count_if(request_.headers, [&](const auto& header) { return header.first == name; });
  };
  if (count("host") > 1) return fail(400, "there is more than one Host header");
  expects_continue_ = is_http_1_1_ && lower_case(request_.header("expect")) == "100-continue";
  const std::string_view target(message.target().data(), message.target().size());
  if (target.empty() || target.front() != '/') return fail(400, "the target of the request is not a path");
  const size_t question = target.find('?');
  const std::optional<std::string> path = decode_percent(target.substr(0, question));
  if (!path) return fail(400, "the path has a malformed percent code");
  request_.path = plain_path(*path);
  if (question != std::string_view::npos) request_.query = std::string(target.substr(question + 1));
  return Status::kMore;
}

Request RequestReader::take() {
  request_.body = std::move(parser_->get().body());
  Request request = std::move(request_);
  begin();
  return request;
}

}  // namespace kvik::server
