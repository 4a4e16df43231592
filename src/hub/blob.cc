#include "hub/blob.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "hub/digest.h"
#include "kvik/error.h"

namespace kvik::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFailures = 5;  // in a row, without a byte between them
constexpr std::chrono::milliseconds kPoll{50};

[[noreturn]] void fail_on_disk(const fs::path& path) { throw Error(Code::kIo, fmt::format("{}: {}", path.string(), std::strerror(errno))); }

class Descriptor {
 public:
  Descriptor(fs::path path, int flags) : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail_on_disk(path_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }

  int get() const { return fd_; }
  void check(int result) const {
    if (result != 0) fail_on_disk(path_);
  }

 private:
  fs::path path_;
  int fd_;
};

// Held while a blob is downloaded, by this and by other programs that use the cache.
class Lock {
 public:
  // `cancelled` is polled while another program holds it.
  Lock(const fs::path& path, const std::function<bool()>& cancelled) : file_(path, O_RDWR | O_CREAT) {
    while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) fail_on_disk(path);
      if (cancelled && cancelled()) return;
      std::this_thread::sleep_for(kPoll);
    }
    held_ = true;
  }
  bool is_held() const { return held_; }

 private:
  Descriptor file_;
  bool held_ = false;
};

// A partial download; its name ends with .incomplete.
class Partial {
 public:
  Partial(const Store& store, const Entry& entry) : path_(store.partial(entry)), entry_(entry), file_(path_, O_RDWR | O_CREAT) {
    done_ = static_cast<int64_t>(::lseek(file_.get(), 0, SEEK_END));
    if (done_ < 0) fail_on_disk(path_);
    if (done_ > entry_.bytes) restart();
  }

  int64_t done() const { return done_; }
  bool is_full() const { return done_ == entry_.bytes; }
  void restart() {
    file_.check(::ftruncate(file_.get(), 0));
    ::lseek(file_.get(), 0, SEEK_SET);
    done_ = 0;
  }
  // False if that is more than the file should have.
  bool append(std::span<const char> bytes) {
    if (static_cast<int64_t>(bytes.size()) > entry_.bytes - done_) return false;
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_on_disk(path_);
      bytes = bytes.subspan(static_cast<size_t>(n));
      done_ += n;
    }
    return true;
  }
  // Gives it the name of the blob. Throws Error(kIo), and begins again, if the checksum is wrong.
  void finish(const fs::path& blob) {
    file_.check(::fdatasync(file_.get()));
    if (const std::string found = digest_of(path_, entry_.digest.size()); found != entry_.digest) {
      restart();
      throw Error(Code::kIo, fmt::format("{}: the download has the checksum {}; {} was expected, so the file was discarded", entry_.path,
                                         found, entry_.digest));
    }
    file_.check(::fchmod(file_.get(), 0644));
    fs::rename(path_, blob);
  }

 private:
  fs::path path_;
  const Entry& entry_;
  Descriptor file_;
  int64_t done_ = 0;
};

// One request; what arrives is appended. An error of the disk is kept, because it cannot pass through libcurl.
Response receive(HttpClient& client, Partial& partial, const Fetch& fetch, std::exception_ptr& disk_error) {
  bool too_much = false, other_range = false;
  const auto guarded = [&](const auto& body) {
    try {
      return body();
    } catch (const Error&) {
      disk_error = std::current_exception();
      return false;
    }
  };
  Request request{
      .url = fetch.url, .token = fetch.token, .from_byte = partial.done(), .body = {}, .start = {}, .cancelled = fetch.cancelled};
  request.start = [&](int64_t from) {
    return guarded([&] {
      if (from != partial.done()) partial.restart();  // the hub sends all of it again
      other_range = from != partial.done();
      return !other_range;
    });
  };
  request.body = [&](std::span<const char> bytes) {
    return guarded([&] {
      too_much = !partial.append(bytes);
      if (fetch.progress) fetch.progress(partial.done());
      return !too_much;
    });
  };
  Response response = client.get(request);
  if (response.status == 416) partial.restart();
  if (other_range) response.stopped = false, response.error = "the hub sent a different part of the file than was requested";
  if (too_much) throw Error(Code::kIo, fmt::format("{}: the hub sent more bytes than its listing states", fetch.url));
  return response;
}

bool pause(int n_failures, const Response& response, const Fetch& fetch) {
  auto rest = std::chrono::milliseconds(100) * (1 << n_failures);
  if (const auto asked = response.headers.find("retry-after"); asked != response.headers.end())
    rest = std::max<std::chrono::milliseconds>(rest, std::chrono::seconds(std::min(60, std::atoi(asked->second.c_str()))));
  for (; rest > std::chrono::milliseconds(0); rest -= kPoll) {
    if (fetch.cancelled && fetch.cancelled()) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace

bool fetch_blob(HttpClient& client, const Store& store, const Entry& entry, const Fetch& fetch, Response& refused) {
  refused = {};
  fs::create_directories(store.blob(entry).parent_path());
  fs::create_directories(store.lock(entry).parent_path());
  const Lock lock(store.lock(entry), fetch.cancelled);
  if (!lock.is_held()) return false;
  if (store.has(entry)) return true;  // another program was faster
  Partial partial(store, entry);
  for (int n_failures = 0, n_wrong = 0;;) {
    const int64_t before = partial.done();
    Response response;
    if (!partial.is_full()) {
      std::exception_ptr disk_error;
      response = receive(client, partial, fetch, disk_error);
      if (disk_error != nullptr) std::rethrow_exception(disk_error);
    }
    if (partial.is_full()) {
      try {
        partial.finish(store.blob(entry));
        return true;
      } catch (const Error&) {
        // The part from an earlier download may have been corrupt; if a complete download fails too, the file on the hub is corrupt.
        if (before == 0 || ++n_wrong > 1) throw;
        continue;
      }
    }
    if (fetch.cancelled && fetch.cancelled()) return false;
    n_failures = partial.done() > before ? 1 : n_failures + 1;
    const bool again = response.is_worth_retrying() || response.is_done() || response.status == 416;
    if (!again || n_failures == kMostFailures) {
      refused = response;
      if (response.error.empty() && response.is_done()) refused.error = "the connection ended before the file did";
      return false;
    }
    if (!pause(n_failures, response, fetch)) return false;
  }
}

}  // namespace kvik::hub
