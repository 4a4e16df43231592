#pragma once

#include <optional>
#include <string>

#include "cli/command.h"

// What the command line does with a network. network/ has it; without_network.cc takes its place if Kvik is built with KVIK_NETWORK=OFF.
namespace kvik::cli {

// Of the name of a model that is neither here nor in the hub cache, if it may be one of the hub: asks on a terminal whether to download
// it, and does.
void offer_to_pull(const std::string& model, const std::optional<std::string>& variant, const Terminal& terminal);

// Removes a model from the hub cache. Returns the bytes that were freed. Throws Error.
int64_t remove_pulled(const std::string& repository);

void add_pull(Commands commands);
void add_serve(Commands commands);

}  // namespace kvik::cli
