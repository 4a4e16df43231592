#pragma once

#include "cli/command.h"
#include "kvik/hub.h"

namespace kvik::cli {

// Downloads with a progress bar on a terminal, and one line per file otherwise. Throws Error.
hub::Pulled pull_model(const std::string& repository, hub::PullOptions options, const Terminal& terminal);

// Of the name of a model that is neither here nor in the hub cache, if it may be one of the hub: asks on a terminal whether to download
// it, and does.
void offer_to_pull(const std::string& model, const std::optional<std::string>& variant, const Terminal& terminal);

}  // namespace kvik::cli
