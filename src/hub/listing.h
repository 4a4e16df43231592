#pragma once

#include <string>
#include <vector>

#include "hub/http.h"
#include "kvik/hub.h"

namespace kvik::hub {

// A file in the hub's listing, after its fields have been checked.
struct Entry {
  std::string path;    // relative, without "." and "..", in printable characters
  std::string digest;  // see digest.h; names the blob in the cache
  int64_t bytes = 0;
};

struct Listing {
  std::string commit;
  std::vector<Entry> entries;
};

// Retries a request after broken connections, 408, 429 and 5xx, with growing pauses.
Response get_with_retries(HttpClient& client, const Request& request);

// Explains an HTTP error of the hub to the user in one sentence.
[[noreturn]] void throw_refusal(const Response& response, const std::string& repository, const PullOptions& options);

// All files of a revision. Throws Error(kIo).
Listing list_files(HttpClient& client, const std::string& repository, const PullOptions& options);

// Throws Error(kIo) for a path that could leave the folder it is meant for.
void check_path(const std::string& path);

}  // namespace kvik::hub
