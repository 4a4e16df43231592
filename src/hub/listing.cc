#include "hub/listing.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

#include "base/json.h"
#include "hub/digest.h"
#include "kvik/error.h"

namespace kvik::hub {
namespace {

constexpr int kMostTries = 5;
constexpr size_t kMostEntries = 100'000, kMostPages = 1000, kLongestPath = 1024, kLongestPart = 255;

[[noreturn]] void bad_answer(const std::string& url, const std::string& what) {
  throw Error(Code::kIo, fmt::format("{}: the hub's response {}", url, what));
}

Json get_json(HttpClient& client, const std::string& url, const std::string& repository, const PullOptions& options, Response& response) {
  response =
      get_with_retries(client, {.url = url, .token = options.settings.token, .body = {}, .start = {}, .cancelled = options.cancelled});
  if (!response.is_done()) throw_refusal(response, repository, options);
  Json json = Json::parse(response.text, nullptr, false);
  if (json.is_discarded()) bad_answer(url, "is not JSON");
  return json;
}

std::string text_of(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) && object.at(name).is_string() ? object.at(name).get<std::string>() : std::string();
}

int64_t size_of(const Json& object) {
  return object.is_object() && object.contains("size") && object.at("size").is_number_integer() ? object.at("size").get<int64_t>() : -1;
}

Entry read_entry(const Json& object, const std::string& url) {
  const Json large = object.contains("lfs") ? object.at("lfs") : Json();
  Entry entry{.path = text_of(object, "path"),
              .digest = text_of(large.is_object() ? large : object, "oid"),
              .bytes = size_of(large.is_object() ? large : object)};
  check_path(entry.path);
  if (!is_digest(entry.digest) || entry.bytes < 0) bad_answer(url, fmt::format("has no checksum or no size for '{}'", entry.path));
  return entry;
}

// The URL with rel="next" of a Link header; empty if there is none.
std::string next_page(const Response& response) {
  const auto link = response.headers.find("link");
  if (link == response.headers.end()) return {};
  const size_t rel = link->second.find("rel=\"next\"");
  if (rel == std::string::npos) return {};
  const size_t open = link->second.rfind('<', rel), close = link->second.find('>', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos || close > rel) return {};
  return link->second.substr(open + 1, close - open - 1);
}

}  // namespace

Response get_with_retries(HttpClient& client, const Request& request) {
  std::chrono::milliseconds pause{200};
  for (int n_tries = 1;; ++n_tries, pause *= 2) {
    Response response = client.get(request);
    if (!response.is_worth_retrying() || n_tries == kMostTries) return response;
    for (auto waited = std::chrono::milliseconds(0); waited < pause; waited += std::chrono::milliseconds(50)) {
      if (request.cancelled && request.cancelled()) return response;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

void check_path(const std::string& path) {
  const auto refuse = [&](const char* why) {
    std::string shown = path.substr(0, 100);
    std::ranges::replace_if(
        shown, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }, '?');
    throw Error(Code::kIo, fmt::format("the hub lists a file '{}', {}; the repository is not downloaded", shown, why));
  };
  if (path.empty() || path.size() > kLongestPath) refuse("whose name is empty or too long");
  if (std::ranges::any_of(path, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127 || c == '\\'; }))
    refuse("whose name has invalid characters");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kLongestPart) refuse("whose path leaves its folder");
    begin = end + 1;
  }
}

void throw_refusal(const Response& response, const std::string& repository, const PullOptions& options) {
  const std::string& endpoint = options.settings.endpoint;
  const auto fail = [&](const std::string& sentence) { throw Error(Code::kIo, fmt::format("{}: {}", repository, sentence)); };
  const auto reason = response.headers.find("x-error-code");
  const std::string code = reason == response.headers.end() ? "" : reason->second;
  if (response.stopped && options.cancelled && options.cancelled()) fail("the download was cancelled");
  if (response.status == 0 || !response.error.empty())
    fail(fmt::format("{} cannot be reached: {}", endpoint, response.error.empty() ? "there was no response" : response.error));
  if (code == "RevisionNotFound" || (response.status == 404 && code.empty() && options.revision != "main"))
    fail(fmt::format("there is no revision '{}' at {}", options.revision, endpoint));
  if (code == "GatedRepo" || ((response.status == 401 || response.status == 403) && code != "RepoNotFound"))
    fail(fmt::format("access is restricted; accept the terms at {}/{} if it has any, and set HF_TOKEN to a token from {}/settings/tokens",
                     endpoint, repository, endpoint));
  if (response.status == 404 || response.status == 401)
    fail(fmt::format(
        "there is no such repository at {}, or it is private; for a private one, set HF_TOKEN to a token from {}/settings/tokens", endpoint,
        endpoint));
  fail(fmt::format("{} responded with status {}; try again later", endpoint, response.status));
  std::abort();  // fail() throws
}

Listing list_files(HttpClient& client, const std::string& repository, const PullOptions& options) {
  const std::string base = fmt::format("{}/api/models/{}", options.settings.endpoint, repository);
  std::string revision = escape_path(options.revision);
  for (size_t at = revision.find('/'); at != revision.npos; at = revision.find('/', at)) revision.replace(at, 1, "%2F");
  std::string url = fmt::format("{}/revision/{}", base, revision);
  Response response;
  Listing listing{.commit = text_of(get_json(client, url, repository, options, response), "sha"), .entries = {}};
  if (listing.commit.size() != 40 || !is_digest(listing.commit)) bad_answer(url, "names no commit");
  url = fmt::format("{}/tree/{}?recursive=true&expand=false", base, listing.commit);
  for (size_t n_pages = 0; !url.empty(); ++n_pages) {
    if (n_pages == kMostPages) bad_answer(url, fmt::format("has more than {} pages", kMostPages));
    const Json page = get_json(client, url, repository, options, response);
    if (!page.is_array()) bad_answer(url, "is not a list of files");
    for (const Json& object : page) {
      if (text_of(object, "type") == "file") listing.entries.push_back(read_entry(object, url));
      if (listing.entries.size() > kMostEntries) bad_answer(url, fmt::format("lists more than {} files", kMostEntries));
    }
    const std::string next = next_page(response);
    if (!next.empty() && origin_of(next) != origin_of(url)) bad_answer(url, "continues on another host");
    url = next;
  }
  return listing;
}

}  // namespace kvik::hub
