#pragma once

#include <optional>
#include <string>

#include "cli/command.h"

// The commands that use the network: implemented in network/, or by without_network.cc if Kvik is built with KVIK_NETWORK=OFF.
namespace kvik::cli {

// If the model is found neither on the search path nor in the hub cache and may be the name of a repository on the hub: asks on a terminal
// whether to download it, and downloads it.
void offer_to_pull(const std::string& model, const std::optional<std::string>& variant, const Terminal& terminal);

// Removes a model from the hub cache. Returns the bytes that were freed. Throws Error.
int64_t remove_pulled(const std::string& repository);

void add_pull(Commands commands);
void add_serve(Commands commands);

}  // namespace kvik::cli
