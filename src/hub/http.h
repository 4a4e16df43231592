#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvik::hub {

struct Request {
  std::string url;
  std::string token;      // sent to the host of `url` only; see Settings
  int64_t from_byte = 0;  // of a file whose first bytes have been downloaded
  // Gets the body of a 200 or 206 as it arrives; false ends the request. `from`: where in the file it begins.
  std::function<bool(std::span<const char> bytes)> body;
  std::function<bool(int64_t from)> start;  // before the first byte of the body
  std::function<bool()> cancelled;
};

struct Response {
  int status = 0;                              // 0: there was none
  std::map<std::string, std::string> headers;  // names in lower case; of the last answer
  std::string error;                           // why the connection broke, if it did
  bool stopped = false;                        // by `body`, `start` or `cancelled`
  std::string text;                            // body of an answer other than 200 and 206; of any if `body` is not set. Bounded

  bool is_done() const { return (status == 200 || status == 206) && error.empty() && !stopped; }
  bool is_worth_retrying() const;  // a broken connection, 408, 429, 5xx
};

// Requests over one connection that is kept open. Used by one thread.
class HttpClient {
 public:
  // `certificates`: a file; see Settings.
  explicit HttpClient(const std::filesystem::path& certificates);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Follows redirects: never from HTTPS to HTTP, and without the token to another host.
  Response get(const Request& request);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// "https://host:port" of a URL in lower case; empty if it is not one of HTTP or HTTPS.
std::string origin_of(const std::string& url);
// Whether a token may be sent there.
bool is_private_line(const std::string& origin);
// A path of a repository as part of a URL.
std::string escape_path(std::string_view path);

}  // namespace kvik::hub
