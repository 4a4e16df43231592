#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string path;   // decoded, without the query
  std::string query;  // as sent
  Headers headers;    // names in lower case
  std::string body;
  std::string peer;  // address of the client, without its port

  std::string_view header(std::string_view name) const;  // empty if there is none
};

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers;
};

// The answer to one request. Any thread may call; data for a client that has disconnected is dropped.
class Responder {
 public:
  virtual ~Responder() = default;

  virtual void send(Response response) = 0;
  // Sends the answer in parts. A client that does not read is disconnected if too much is unsent.
  virtual void begin(Response head) = 0;
  virtual void write(std::string_view part) = 0;
  virtual void end() = 0;

  // Runs `work` on the thread of the server, in the order of the calls; it must be short.
  // False if the server has ended.
  virtual bool post(std::function<void()> work) = 0;
  // Called once, on the thread of the server, if the client disconnects before the answer is complete.
  virtual void on_disconnect(std::function<void()> call) = 0;
};

// Decodes %XX; nullopt if the text is malformed or contains a NUL.
std::optional<std::string> decode_percent(std::string_view text);
// Removes repeated and trailing slashes: "//v1/models/" becomes "/v1/models". Base URLs are written with and without them.
std::string plain_path(std::string_view path);
std::string_view reason_phrase(int status);
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace kvik::server
