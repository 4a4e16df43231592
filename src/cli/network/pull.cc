#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <set>
#include <unistd.h>

#include "base/escape.h"
#include "base/json.h"
#include "cli/input.h"
#include "cli/inspect.h"
#include "cli/interrupt.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/validators.h"
#include "kvik/hub.h"

namespace kvik::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A line that is redrawn on a terminal; otherwise one line per completed file.
class PullProgress {
 public:
  explicit PullProgress(const Terminal& terminal)
      : draws_(!terminal.quiet && isatty(STDERR_FILENO) != 0), prints_(!terminal.quiet && !draws_), started_(Clock::now()) {}
  ~PullProgress() {
    if (drawn_) print_error_text("\r\033[K");
  }
  PullProgress(const PullProgress&) = delete;
  PullProgress& operator=(const PullProgress&) = delete;

  void show(const hub::Progress& progress) {
    if (first_done_ < 0) first_done_ = progress.done;
    const bool is_whole = progress.file_done == progress.file_bytes;
    if (prints_ && is_whole && printed_.insert(std::string(progress.path)).second)
      print_message("{} ({}) is here", escape_controls(progress.path), size_text(progress.file_bytes));
    if (!draws_ || (Clock::now() - last_ < std::chrono::milliseconds(100) && progress.done < progress.bytes)) return;
    last_ = Clock::now();
    const double share = progress.bytes > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.bytes) : 1.0;
    const double seconds = std::max(1e-3, std::chrono::duration<double>(last_ - started_).count());
    const auto per_second = static_cast<int64_t>(static_cast<double>(progress.done - first_done_) / seconds);
    constexpr int kWidth = 24;
    const int n_full = static_cast<int>(share * kWidth);
    print_error_text(fmt::format("\r\033[K[{:#<{}}{:-<{}}] {:3.0f} %  {} of {}  {}/s  {}", "", n_full, "", kWidth - n_full, share * 100,
                                 size_text(progress.done), size_text(progress.bytes), size_text(per_second),
                                 escape_controls(progress.path.substr(0, 40))));
    drawn_ = true;
  }

 private:
  bool draws_, prints_, drawn_ = false;
  Clock::time_point started_, last_;
  int64_t first_done_ = -1;
  std::set<std::string> printed_;
};

Json pulled_json(const std::string& repository, const hub::Pulled& pulled, bool dry_run) {
  Json files = Json::array();
  int64_t bytes = 0;
  for (const hub::File& file : pulled.files) {
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"cached", file.there}});
    bytes += file.bytes;
  }
  return {{"repository", repository},
          {"commit", pulled.commit},
          {"path", pulled.folder.string()},
          {"files", files},
          {"bytes", bytes},
          {"downloaded_bytes", pulled.downloaded_bytes},
          {"dry_run", dry_run},
          {"cancelled", pulled.cancelled}};
}

void print_files(const hub::Pulled& pulled) {
  int64_t bytes = 0, missing = 0;
  for (const hub::File& file : pulled.files) {
    print_result("{:>10}  {}{}\n", size_text(file.bytes), escape_controls(file.path), file.there ? "  (cached)" : "");
    bytes += file.bytes;
    missing += file.there ? 0 : file.bytes;
  }
  print_result("{:>10}  in {} files, {} to download\n", size_text(bytes), pulled.files.size(), size_text(missing));
}

// Downloads with a progress bar on a terminal, and one line per file otherwise. Throws Error.
hub::Pulled pull_with_progress(const std::string& repository, hub::PullOptions options, const Terminal& terminal) {
  options.settings = hub::settings_of_environment();
  options.cancelled = [] { return Interrupt::happened(); };
  PullProgress progress(terminal);
  options.progress = [&](const hub::Progress& now) { progress.show(now); };
  return hub::pull(repository, options);
}

int pull_command(const std::string& repository, const hub::PullOptions& options, const Terminal& terminal) {
  const Interrupt interrupt;
  const hub::Pulled pulled = pull_with_progress(repository, options, terminal);
  if (terminal.json) {
    print_result("{}\n", pulled_json(repository, pulled, options.dry_run).dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (options.dry_run) {
    print_files(pulled);
  } else if (!pulled.cancelled) {
    print_result("{}\n", escape_controls(pulled.folder.string()));
  }
  return 0;
}

}  // namespace

void offer_to_pull(const std::string& model, const std::optional<std::string>& variant, const Terminal& terminal) {
  const bool can_ask = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && !terminal.quiet;
  const hub::Settings settings = hub::settings_of_environment();
  std::error_code missing;
  if (!can_ask || model.find('/') == model.npos || std::filesystem::exists(model, missing) || !hub::is_name(model)) return;
  const std::vector<hub::Cached> cached = hub::list(settings);
  if (std::ranges::any_of(cached, [&](const hub::Cached& one) { return one.repository == model && !one.folder.empty(); })) return;
  print_error_text(
      fmt::format("{} is not on this machine. Download it from {}? [y/N] ", escape_controls(model), escape_controls(settings.endpoint)));
  const std::string answer = StandardInput().next_line().value_or("");
  if (answer != "y" && answer != "Y" && answer != "yes") return;
  const Interrupt interrupt;
  pull_with_progress(model, {.settings = {}, .variant = variant}, terminal);
}

int64_t remove_pulled(const std::string& repository) { return hub::remove(repository, hub::settings_of_environment()); }

void add_pull(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("pull", "Download a model from the Hugging Face hub into the hub's cache");
  struct PullCommand {
    std::string repository;
    hub::PullOptions options;
  };
  auto options = std::make_shared<PullCommand>();
  command->add_option("REPO", options->repository, "Repository on the hub: ORG/NAME")->required()->option_text(" ");
  command->add_option("--variant", options->options.variant, "Precision to download if there are several: fp16, q4, quantized …")
      ->option_text("NAME");
  command->add_option("--revision", options->options.revision, "Branch, tag or commit")->option_text("NAME");
  command->add_option("--folder", options->options.folder, "Folder of the repository that contains the model, if not the root or onnx/")
      ->option_text("PATH");
  command->add_option("--connections", options->options.connections, "Number of parallel downloads")
      ->check(between(1, 16))
      ->option_text("N");
  command->add_flag("--dry-run", options->options.dry_run, "Only list what would be downloaded");
  add_common_options(*command, commands.terminal);
  command->callback([=] { commands.run = [=] { return pull_command(options->repository, options->options, commands.terminal); }; });
}

}  // namespace kvik::cli
