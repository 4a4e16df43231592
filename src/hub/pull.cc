#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "api/hub_cache.h"
#include "hub/blob.h"
#include "hub/external_names.h"
#include "hub/selection.h"
#include "kvik/hub.h"

namespace kvik::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMostConnections = 16;

// One call of pull().
class Puller {
 public:
  Puller(std::string repository, const PullOptions& options)
      : repository_(std::move(repository)),
        options_(options),
        store_(options.settings.cache, repository_),
        client_(options.settings.certificates) {}

  Pulled run() {
    listing_ = list_files(client_, repository_, options_);
    result_.commit = listing_.commit;
    result_.folder = store_.snapshot(listing_.commit);
    if (!options_.folder.empty()) result_.folder /= options_.folder;
    const std::vector<Entry> graphs = choose_graphs(listing_, repository_, options_, genai_config());
    for (const Entry& entry : listing_.entries) {
      const bool is_data = std::ranges::any_of(graphs, [&](const Entry& graph) { return is_data_of(entry, graph); });
      const bool is_graph = std::ranges::find(graphs, entry.path, &Entry::path) != graphs.end();
      if (is_data || is_graph || is_config(entry, options_.folder)) add(entry);
    }
    if (options_.dry_run) return result_;
    fetch_all();
    if (!result_.cancelled && add_external_data(graphs)) fetch_all();
    if (!result_.cancelled) show();
    return result_;
  }

 private:
  std::string url_of(const Entry& entry) const {
    return fmt::format("{}/{}/resolve/{}/{}", options_.settings.endpoint, repository_, listing_.commit, escape_path(entry.path));
  }

  // The text of genai_config.json, which names the graphs; empty if there is none.
  std::string genai_config() {
    const std::string path = options_.folder.empty() ? "genai_config.json" : options_.folder + "/genai_config.json";
    const auto found = std::ranges::find(listing_.entries, path, &Entry::path);
    if (found == listing_.entries.end() || options_.variant) return {};
    const Response response = get_with_retries(
        client_, {.url = url_of(*found), .token = options_.settings.token, .body = {}, .start = {}, .cancelled = options_.cancelled});
    if (!response.is_done()) throw_refusal(response, repository_, options_);
    return response.text;
  }

  void add(const Entry& entry) {
    if (std::ranges::find(chosen_, entry.path, &Entry::path) != chosen_.end()) return;
    chosen_.push_back(entry);
    result_.files.push_back({entry.path, entry.bytes, store_.has(entry)});
  }

  // Adds the files that the graphs refer to; true if some were not in the list yet.
  bool add_external_data(const std::vector<Entry>& graphs) {
    const size_t n_before = chosen_.size();
    for (const Entry& graph : graphs) {
      const size_t slash = graph.path.rfind('/');
      const std::string folder = slash == graph.path.npos ? "" : graph.path.substr(0, slash + 1);
      for (const std::string& name : external_names(store_.blob(graph))) {
        check_path(name);
        const auto found = std::ranges::find(listing_.entries, folder + name, &Entry::path);
        if (found == listing_.entries.end())
          throw Error(Code::kIo,
                      fmt::format("{}: {} has weights in '{}', and the repository has no such file", repository_, graph.path, name));
        add(*found);
      }
    }
    return chosen_.size() > n_before;
  }

  void check_space() const {
    int64_t missing = 0;
    for (const Entry& entry : chosen_) missing += store_.missing_bytes(entry);
    fs::create_directories(options_.settings.cache);
    const fs::space_info space = fs::space(options_.settings.cache);
    if (static_cast<uintmax_t>(missing) <= space.available) return;
    throw Error(Code::kIo, fmt::format("{}: {:.2f} GB must be downloaded, but {} has only {:.2f} GB free", repository_,
                                       static_cast<double>(missing) / 1e9, options_.settings.cache.string(),
                                       static_cast<double>(space.available) / 1e9));
  }

  // Downloads the selected files that are missing, several at a time, the largest first.
  void fetch_all() {
    check_space();
    done_.clear();
    std::vector<const Entry*> missing;
    for (const Entry& entry : chosen_) {
      done_[entry.path] = entry.bytes - store_.missing_bytes(entry);
      if (!store_.has(entry)) missing.push_back(&entry);
    }
    std::ranges::stable_sort(missing, std::greater(), [](const Entry* entry) { return entry->bytes; });
    std::atomic<size_t> next = 0;
    std::atomic<bool> stop = false;
    std::exception_ptr error;
    const auto cancelled = [&] { return stop || (options_.cancelled && options_.cancelled()); };
    const auto work = [&] {
      HttpClient client(options_.settings.certificates);
      for (size_t i = next++; i < missing.size() && !cancelled(); i = next++) {
        try {
          fetch(client, *missing[i], cancelled);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!stop.exchange(true)) error = std::current_exception();
        }
      }
    };
    {
      const int n_threads = std::clamp<int>(options_.connections, 1, kMostConnections);
      std::vector<std::jthread> threads;
      for (int i = 1; i < n_threads && i < static_cast<int>(missing.size()); ++i) threads.emplace_back(work);
      work();
    }
    if (error != nullptr) std::rethrow_exception(error);
    result_.cancelled = options_.cancelled && options_.cancelled();
  }

  void fetch(HttpClient& client, const Entry& entry, const std::function<bool()>& cancelled) {
    const int64_t missing = store_.missing_bytes(entry);
    const auto progress = [&](int64_t done) {
      const std::lock_guard lock(mutex_);
      done_[entry.path] = done;
      if (!options_.progress) return;
      Progress report{.path = entry.path, .file_done = done, .file_bytes = entry.bytes, .done = 0, .bytes = 0};
      for (const Entry& one : chosen_) report.done += done_[one.path], report.bytes += one.bytes;
      options_.progress(report);
    };
    Response refused;
    if (!fetch_blob(client, store_, entry,
                    {.url = url_of(entry), .token = options_.settings.token, .progress = progress, .cancelled = cancelled}, refused)) {
      if (cancelled()) return;
      throw_refusal(refused, fmt::format("{} ({})", repository_, entry.path), options_);
    }
    const std::lock_guard lock(mutex_);
    result_.downloaded_bytes += missing;
  }

  // After all files are complete: writes the links to them, then the name of the revision.
  void show() const {
    for (const Entry& entry : chosen_) store_.link(listing_.commit, entry);
    store_.set_ref(options_.revision, listing_.commit);
  }

  std::string repository_;
  const PullOptions& options_;
  Store store_;
  HttpClient client_;
  Listing listing_;
  std::vector<Entry> chosen_;
  Pulled result_;
  std::mutex mutex_;                     // of what follows, and of the callbacks
  std::map<std::string, int64_t> done_;  // bytes by path
};

// A folder or a revision that the user names.
void check_own_path(const std::string& path, const char* what) {
  try {
    check_path(path);
  } catch (const Error&) { throw Error(Code::kBadArgument, fmt::format("'{}' is not a valid {} of a repository", path, what)); }
}

}  // namespace

Pulled pull(const std::string& repository, const PullOptions& options) {
  if (!api::is_repository_name(repository))
    throw Error(Code::kBadArgument, fmt::format("'{}' is not a repository name; ORG/NAME was expected", repository));
  if (options.settings.cache.empty()) throw Error(Code::kBadArgument, "there is no folder for the hub cache; set HF_HOME or HF_HUB_CACHE");
  if (origin_of(options.settings.endpoint).empty())
    throw Error(Code::kBadArgument,
                fmt::format("the hub's address is '{}'; http:// or https:// and a host were expected", options.settings.endpoint));
  const fs::path& certificates = options.settings.certificates;
  if (!certificates.empty() && !std::ifstream(certificates))
    throw Error(Code::kBadArgument,
                fmt::format("the certificates for HTTPS, '{}', cannot be read; see SSL_CERT_FILE", certificates.string()));
  check_own_path(options.revision, "revision");
  if (!options.folder.empty()) check_own_path(options.folder, "folder");
  try {
    return Puller(repository, options).run();
  } catch (const fs::filesystem_error& e) { throw Error(Code::kIo, fmt::format("{}: {}", e.path1().string(), e.code().message())); }
}

}  // namespace kvik::hub
