#include "cli/profile_report.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/cpu_features.h"
#include "base/new_file.h"
#include "cli/output.h"
#include "kvik/inspect.h"

namespace kvik::cli {
namespace {

std::string profile_table(const std::vector<OpTime>& ops) {
  double total = 0;
  for (const OpTime& op : ops) total += op.seconds;
  const bool has_bytes = std::ranges::any_of(ops, [](const OpTime& op) { return op.bytes > 0; });  // kernels of a GPU have none
  const double bandwidth = has_bytes ? measure_read_bandwidth_gb_per_s(usable_cores()) : 0;
  std::string text =
      fmt::format("{:<26}{:>9}{:>11}{:>8}{:>11}{:>9}{:>8}{:>10}\n", "operation", "calls", "ms", "share", "MB", "GB/s", "of read", "GMAC/s");
  for (const OpTime& op : ops) {
    const double speed = op.bytes * 1e-9 / op.seconds;
    text += fmt::format("{:<26}{:>9}{:>11.3f}{:>6.1f} %", op.op, op.calls, op.seconds * 1e3, 100 * op.seconds / total);
    if (op.bytes > 0) text += fmt::format("{:>11.1f}{:>9.1f}{:>6.0f} %", op.bytes * 1e-6, speed, 100 * speed / bandwidth);
    if (op.multiplications > 0) text += fmt::format("{:>10.1f}", op.multiplications * 1e-9 / op.seconds);
    text += '\n';
  }
  text += fmt::format("{:<35}{:>11.3f}", "sum", total * 1e3);
  return text + (has_bytes ? fmt::format("   memory reads {:.1f} GB/s\n", bandwidth) : "\n");
}

}  // namespace

void report_profile(const Terminal& terminal) {
  if (terminal.recording == nullptr) return;
  if (!terminal.trace.empty()) write_file(terminal.trace, terminal.recording->trace());
  if (terminal.profile) print_error_text(profile_table(terminal.recording->ops()));
}

}  // namespace kvik::cli
