#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hub/listing.h"

// Which files of a repository a model needs: one precision of each graph, the weights beside it, and what configures them.
namespace kvik::hub {

// Config, tokenizer and template files: small files of the model's folder, of onnx/ in it and of its sentence-transformers modules.
bool is_config(const Entry& entry, const std::string& folder);

// The graphs: those that genai_config.json names (its text; empty if there is none), else one precision of each, by the rule of
// Model::load(). A merged decoder makes the files that it was merged from unnecessary. Throws Error(kIo) if there are none.
std::vector<Entry> choose_graphs(const Listing& listing, const std::string& repository, const PullOptions& options,
                                 const std::string& genai_config);

// Weights in files of their own, by the names that exporters give to them.
bool is_data_of(const Entry& entry, const Entry& graph);

}  // namespace kvik::hub
