#pragma once

#include "cli/command.h"

namespace kvik::cli {

// After a command: prints the table of --profile and writes the file of --trace.
void report_profile(const Terminal& terminal);

}  // namespace kvik::cli
