#include "cli/command.h"

namespace kvik::cli {

void add_inspect(Commands commands);
void add_render(Commands commands);
void add_tokenize(Commands commands);

void add_all(Commands commands) {
  add_inspect(commands);
  add_tokenize(commands);
  add_render(commands);
}

}  // namespace kvik::cli
