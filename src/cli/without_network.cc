#include "cli/network.h"
#include "kvik/error.h"

namespace kvik::cli {
namespace {

[[noreturn]] void refuse() {
  throw Error(Code::kUnsupported, "this build has no network support; build with ./dev build or -DKVIK_NETWORK=ON");
}

// The command is listed, accepts any arguments and reports what is missing.
void add_missing(Commands commands, const char* name, const char* help) {
  CLI::App* command = commands.app.add_subcommand(name, help);
  command->allow_extras();
  command->callback([=] { commands.run = []() -> int { refuse(); }; });
}

}  // namespace

void offer_to_pull(const std::string&, const std::optional<std::string>&, const Terminal&) {}

int64_t remove_pulled(const std::string&) { refuse(); }

void add_pull(Commands commands) { add_missing(commands, "pull", "Download a model from the Hugging Face hub (not in this build)"); }

void add_serve(Commands commands) { add_missing(commands, "serve", "Serve models over HTTP (not in this build)"); }

}  // namespace kvik::cli
