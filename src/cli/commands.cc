#include "cli/command.h"

namespace kvik::cli {

void add_all(Commands) {}

}  // namespace kvik::cli
