#pragma once

#include "cli/command.h"

namespace kvik::cli {

// After a command: prints what --profile asked for, and writes the file of --trace.
void report_profile(const Terminal& terminal);

}  // namespace kvik::cli
