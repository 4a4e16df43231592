#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvik/kvik.h"

// Describes a model without running it, and lists the models on this machine. `kvik inspect` and `kvik models` print this.
namespace kvik {

// An input or output of a graph.
struct PortInfo {
  std::string name;
  std::string dtype;
  std::optional<std::vector<std::string>> shape;  // "4096", "batch_size", "?"; not set: not declared
  std::string role;                               // "token_ids", "past_key", …; "unknown"
  std::string means;                              // for the role kv_length: "past", "total" or "total less one"
};

// A tensor that is passed from an output of one step to an input of the next.
struct StateInfo {
  std::string past, present;  // names of the input and the output; one is empty if a file has only the other
  int layer = 0;
  std::string growth;                             // "growing", "fixed", "delta", "constant", "recurrent"
  bool cross = false;                             // keys and values of cross-attention
  std::vector<std::pair<std::string, int>> axes;  // "batch", "heads", "positions", …
  int64_t capacity = 0;                           // "fixed": positions
  std::string present_dtype;                      // if it differs from the past's
};

// One .onnx file.
struct FileInfo {
  std::string role;  // "decoder", "encoder", …
  std::string path;  // relative to the folder
  int64_t ir_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;  // domain and version; "ai.onnx" is the standard one
  std::string producer, producer_version;
  int64_t n_nodes = 0;
  int64_t n_functions = 0;
  int64_t weights_bytes = 0;
  bool quantizes_across_rows = false;                 // quantizes activations with one scale per run: logits depend on the batch
  std::map<std::string, int64_t> operators;           // count per operator
  std::vector<std::string> operators_without_kernel;  // not supported by the reference evaluator
  std::map<std::string, int64_t> weights_bytes_by_dtype;
  std::vector<std::string> external_files;
  std::vector<PortInfo> inputs, outputs;
  std::vector<StateInfo> states;
};

// Layers with the same kind of cache.
struct CacheInfo {
  std::vector<int> layers;
  int n_layers = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;        // of keys
  int64_t value_head_dim = 0;  // of values
  std::string dtype;
  std::string growth;              // as in StateInfo
  int64_t bytes_per_token = 0;     // of all these layers
  int64_t bytes_per_sequence = 0;  // "recurrent": of all these layers
};

struct SpecialTokenIds {
  std::optional<int64_t> bos, pad, unk, decoder_start, forced_bos, forced_eos;
  std::vector<int64_t> eos;
};

// What the native backend compiles one stage to.
struct PlanInfo {
  std::string stage;                                      // "decoder", "encoder", "embedding"
  std::string refused;                                    // why there is no plan; the other fields are then empty
  std::map<std::string, int> operations, fused, unfused;  // counts
  std::map<std::string, int> host_steps;                  // ops that run on the CPU, if a GPU was requested
  std::map<std::string, int> attention;                   // count per mask pattern
  std::map<std::string, int64_t> weights;                 // bytes per weights format
  int64_t bytes_per_token = 0;                            // of weights, read per token
  int64_t kv_bytes_per_token = 0;                         // of cache, kept per token
  std::vector<std::string> notes;
  std::vector<std::string> lines;  // the plan itself, one line per op (`kvik inspect --plan`)
};

// How a model's hidden states are pooled into the vector of a text, from the files in its folder.
struct EmbeddingInfo {
  std::string pooling;             // "mean", "cls+max", …; "graph": the graph pools; empty: not specified, so an option must be set
  bool normalize = false;          // to length 1, unless an option overrides it
  std::vector<std::string> dense;  // layers after pooling: "768 x 256"
  int64_t max_tokens = 0;          // of a text; 0: unknown
  std::vector<std::string> prompts;
  std::string default_prompt;
  std::string problem;  // why no vector can be computed; empty: none
};

struct Inspection {
  std::string kind;  // "decoder", "encoder-decoder", "encoder", "other"
  std::filesystem::path folder;
  std::vector<FileInfo> files;
  std::vector<CacheInfo> cache, cross_cache;  // several if layers differ
  bool can_rewind = false;
  std::optional<int64_t> vocab, max_positions;
  SpecialTokenIds special;
  std::string backend;                     // that Model::load() would use with these options; "none" if nothing can run it
  std::string backend_reason;              // why that one
  std::vector<PlanInfo> plans;             // empty if the native backend cannot run the model
  std::optional<EmbeddingInfo> embedding;  // not set: the model does not embed
  std::vector<std::string> problems;

  int64_t weights_bytes() const;  // of all files
};

// Throws as Model::load() does, but not for a model that can be described but not run.
Inspection inspect(const std::string& path_or_name, const LoadOptions& options = {});

// The output of `kvik inspect --json`: one JSON object.
std::string to_json(const Inspection& inspection);

// A model on the search path or in the hub cache.
struct ModelInfo {
  std::string name;
  std::filesystem::path folder;
  std::string kind;
  int64_t weights_bytes = 0;
  int64_t cache_bytes = 0;   // of one sequence of the maximum length
  bool fits = false;         // into the free memory
  bool recommended = false;  // the largest of its kind that fits
};

// Sorted by name. If several models have the same name, only the one that Model::load() would choose. Folders without a model are logged
// and skipped.
std::vector<ModelInfo> list_models(const std::function<void(LogLevel, std::string_view message)>& log = {});

// Measures how fast `n_threads` threads read main memory. Takes about a second and 512 MB.
double measure_read_bandwidth_gb_per_s(int n_threads);
// The same for the memory that holds the model's weights; on a GPU, the bytes read and written per second by a copy.
double measure_bandwidth_gb_per_s(const Model& model, int n_threads);

}  // namespace kvik
