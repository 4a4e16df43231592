#include "hub/http.h"

#include <algorithm>
#include <charconv>
#include <curl/curl.h>
#include <fmt/format.h>
#include <mutex>

#include "kvik/error.h"
#include "kvik/version.h"

namespace kvik::hub {
namespace {

constexpr int kMostRedirects = 8;
constexpr size_t kMostText = size_t{64} << 20;  // of a listing; a file goes to `body`
constexpr size_t kMostHeaders = 256;
constexpr long kConnectSeconds = 20, kSilentSeconds = 30;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// What the callbacks of one transfer share.
struct Transfer {
  const Request& request;
  CURL* easy;
  Response response;
  bool started = false;

  // The place in the file at which the body of a good answer begins.
  int64_t first_byte() const {
    const auto range = response.headers.find("content-range");
    if (response.status != 206 || range == response.headers.end()) return 0;
    int64_t from = -1;
    const std::string_view value = range->second;
    const size_t digit = value.find_first_of("0123456789");
    if (digit != value.npos) std::from_chars(value.data() + digit, value.data() + value.size(), from);
    return from;
  }

  bool take(std::span<const char> bytes) {
    const bool is_file = request.body && (response.status == 200 || response.status == 206);
    if (!is_file) {
      if (response.text.size() + bytes.size() > kMostText) {
        response.error = fmt::format("the response has more than {} bytes", kMostText);
        return false;
      }
      response.text.append(bytes.data(), bytes.size());
      return true;
    }
    if (!started && request.start && !request.start(first_byte())) return stop();
    started = true;
    return request.body(bytes) || stop();
  }

  bool stop() {
    response.stopped = true;
    return false;
  }
};

size_t on_header(char* data, size_t size, size_t n, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * n);
  if (line.starts_with("HTTP/")) {  // also after "100 Continue"
    long status = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    transfer.response.status = static_cast<int>(status);
    transfer.response.headers.clear();
  } else if (const size_t colon = line.find(':'); colon != line.npos && transfer.response.headers.size() < kMostHeaders) {
    transfer.response.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  }
  return size * n;
}

size_t on_body(char* data, size_t size, size_t n, void* user) {
  return static_cast<Transfer*>(user)->take({data, size * n}) ? size * n : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  return transfer.request.cancelled && transfer.request.cancelled() && !transfer.stop() ? 1 : 0;
}

}  // namespace

struct HttpClient::Handle {
  CURL* easy = nullptr;
  std::string certificates;
  explicit Handle(std::string trusted) : certificates(std::move(trusted)) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    easy = curl_easy_init();
    if (easy == nullptr) throw Error(Code::kInternal, "libcurl could not be started");
  }
  ~Handle() { curl_easy_cleanup(easy); }
};

HttpClient::HttpClient(const std::filesystem::path& certificates) : handle_(std::make_unique<Handle>(certificates.string())) {}
HttpClient::~HttpClient() = default;

bool Response::is_worth_retrying() const {
  if (stopped) return false;
  return status == 0 || !error.empty() || status == 408 || status == 429 || status >= 500;
}

std::string origin_of(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  const size_t end = std::min(url.find_first_of("/?#\\", scheme + 3), url.size());
  const size_t user = url.substr(0, end).find('@', scheme + 3);
  const std::string name = lower(url.substr(0, scheme));
  if ((name != "http" && name != "https") || user != url.npos || end == scheme + 3) return {};
  return lower(url.substr(0, end));
}

bool is_private_line(const std::string& origin) {
  if (origin.starts_with("https://")) return true;
  const std::string place = origin.substr(std::min(origin.size(), std::string_view("http://").size()));
  if (place == "[::1]" || place.starts_with("[::1]:")) return true;
  const std::string host = place.substr(0, place.find(':'));
  return host == "localhost" || (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

std::string escape_path(std::string_view path) {
  std::string escaped;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~/").find(c) != std::string_view::npos;
    escaped += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

Response HttpClient::get(const Request& request) {
  CURL* const easy = handle_->easy;
  const std::string origin = origin_of(request.url);
  std::string url = request.url;
  for (int n_redirects = 0;; ++n_redirects) {
    Transfer transfer{request, easy, {}, false};
    const std::string here = origin_of(url);
    if (here.empty() || (origin.starts_with("https://") && !here.starts_with("https://"))) {
      transfer.response.error = fmt::format("the hub redirects to {}, which does not use the same protocol", url.substr(0, 200));
      transfer.response.stopped = true;
      return transfer.response;
    }
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (!handle_->certificates.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, handle_->certificates.c_str());
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, fmt::format("kvik/{}", kVersion).c_str());
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    if (request.from_byte > 0) curl_easy_setopt(easy, CURLOPT_RANGE, fmt::format("{}-", request.from_byte).c_str());
    curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
    if (!request.token.empty() && here == origin && is_private_line(here))
      headers = curl_slist_append(headers, fmt::format("Authorization: Bearer {}", request.token).c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    const CURLcode code = curl_easy_perform(easy);
    curl_slist_free_all(headers);
    Response& response = transfer.response;
    if (code != CURLE_OK && !response.stopped && response.error.empty()) response.error = curl_easy_strerror(code);
    // The same certificate would come again.
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) response.stopped = true;
    char* next = nullptr;
    const bool redirects = response.status >= 300 && response.status < 400 && response.error.empty();
    if (!redirects || curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &next) != CURLE_OK || next == nullptr) return response;
    if (n_redirects == kMostRedirects) {
      response.error = fmt::format("the hub redirected more than {} times", kMostRedirects);
      response.stopped = true;
      return response;
    }
    url = next;
  }
}

}  // namespace kvik::hub
