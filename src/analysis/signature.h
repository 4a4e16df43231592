#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "onnx/graph.h"
#include "tensor/dtype.h"

// What a model is and how it is fed, read from its files without running it: by dataflow and shapes first, names second,
// config files last. No model family is known here.
namespace kvik::analysis {

// What a file is for.
enum class Stage {
  kDecoder,          // tokens to logits; takes a cache or none at all, and serves the prompt and every later step
  kDecoderWithPast,  // the later steps only; its sibling kDecoder runs the prompt
  kDecoderMerged,    // both, chosen by an input
  kEncoder,          // source tokens to hidden states (or straight to cross-attention keys and values)
  kAudioEncoder,     // audio features to hidden states
  kVisionEncoder,    // pixels to hidden states or classes
  kEmbedding,        // token ids to embeddings, for decoders that take those
  kOther,
};

// What an input or output is for. Which of them an input can be and which an output follows from the names.
enum class Role {
  kUnknown,
  kTokenIds,
  kInputsEmbeds,
  kAttentionMask,
  kPositionIds,
  kTokenTypeIds,
  kPastKey,
  kPastValue,
  kPastKeyValue,  // keys and values in one tensor
  kCrossKey,      // of cross attention: an input, or the output that a first step gives
  kCrossValue,
  kRecurrentState,  // convolution, state-space or recurrent state: no growing axis
  kUseCacheBranch,
  kNumLogitsToKeep,
  kCachePosition,
  kWriteIndices,  // where in a fixed-capacity cache the new positions go
  kKvLength,      // how many positions of the cache are valid
  kEncoderHiddenStates,
  kEncoderAttentionMask,
  kAudioFeatures,
  kPixelValues,
  kLogits,
  kPresentKey,
  kPresentValue,
  kPresentKeyValue,
  kHiddenStates,
  kEmbeddings,
  kOther,  // an output that generation does not need
};
std::string_view role_name(Role role);  // "token_ids", "past_key", …
std::optional<Role> role_named(std::string_view name);
bool is_state_role(Role role);  // what goes from step to step: a past, its present, the keys and values of a source, a recurrent state
std::string_view stage_name(Stage stage);  // "decoder", "decoder_with_past", "decoder_merged", "encoder", …

// How a state changes from one step to the next (the five classes).
enum class Growth {
  kGrowing,    // out = past + new positions along one axis; empty at first
  kFixed,      // a buffer of fixed capacity, zero at first; lengths or write positions say what is valid
  kDelta,      // in = past, out = the new positions only: whoever runs it appends
  kConstant,   // cross attention: made once, never changes
  kRecurrent,  // no positions: replaced at every step, zero at first; cannot be rewound
};
std::string_view growth_name(Growth growth);  // "growing", "fixed", "delta", "constant", "recurrent"

struct Port {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<onnx::Dim> dims;  // as declared
  bool has_shape = false;
  Role role = Role::kUnknown;
  bool means_past = false;  // kKvLength: counts the positions before this step; otherwise those after it
  bool less_one = false;    // kKvLength: wants that count less one
};

// One piece of state that goes from an output of a step into an input of the next.
struct State {
  int input = -1;   // index into File::inputs; -1 in a file that only makes it
  int output = -1;  // index into File::outputs; -1 in a file that only reads it
  enum class Holds { kKey, kValue, kKeyValue, kRecurrent };
  Holds holds = Holds::kKey;
  bool cross = false;
  Growth growth = Growth::kGrowing;
  int layer = 0;  // the number in its name, or its place in order; the first of several when they are stacked

  // Axes of the tensor; -1 where there is none. A merged batch-and-heads axis is both batch_axis and head_axis.
  int batch_axis = 0;
  int head_axis = -1;
  int position_axis = -1;
  int feature_axis = -1;
  int layer_axis = -1;      // several layers stacked in one tensor
  int key_value_axis = -1;  // keys and values stacked along an axis of size 2 (as opposed to halves of the feature axis)

  int64_t n_layers = 1;                    // that this tensor holds
  int64_t n_heads = 0;                     // 0 unknown
  int64_t head_dim = 0;                    // features per head of one key or value (half of the axis when both are fused there); 0 unknown
  int64_t capacity = 0;                    // kFixed: positions
  DType dtype = DType::kUndefined;         // of the input (of the output where there is no input)
  DType output_dtype = DType::kUndefined;  // may differ; then the output must be cast
  int64_t bytes_per_token() const;         // 0 for states without positions
};

// One ONNX file of a model.
struct File {
  std::filesystem::path path;
  Stage stage = Stage::kOther;
  std::shared_ptr<const onnx::Model> model;
  std::vector<Port> inputs;  // those that must be fed, in declared order
  std::vector<Port> outputs;
  std::vector<State> states;             // in the order of the inputs (of the outputs where there is no input)
  std::optional<int64_t> vocab;          // rows of the table that tokens look up, or the width of the logits
  std::optional<int64_t> position_rows;  // rows of the shortest table that positions look up
  std::vector<std::string> problems;     // one sentence each

  const Port* input_of(Role role) const;  // the first; null when there is none
  const Port* output_of(Role role) const;
};

enum class Kind { kDecoder, kEncoderDecoder, kEncoder, kOther };
std::string_view kind_name(Kind kind);  // "decoder", "encoder-decoder", "encoder", "other"

// Layers that are alike, as people speak of a cache.
struct CacheGroup {
  int n_layers = 0;
  std::vector<int> layers;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;        // of keys
  int64_t value_head_dim = 0;  // equal to head_dim but for latent attention and its like
  DType dtype = DType::kUndefined;
  Growth growth = Growth::kGrowing;
  int64_t bytes_per_token = 0;     // of all these layers together
  int64_t bytes_per_sequence = 0;  // kRecurrent: of all these layers together
};

struct SpecialTokens {
  std::optional<int64_t> bos, pad, unk, decoder_start;
  std::vector<int64_t> eos;  // every id that ends generation
  std::optional<int64_t> forced_bos, forced_eos;
};

struct Signature {
  std::filesystem::path folder;
  Kind kind = Kind::kOther;
  std::vector<File> files;
  std::vector<CacheGroup> cache;        // self attention; several where layers differ; recurrent states are groups of their own
  std::vector<CacheGroup> cross_cache;  // per source position
  std::optional<int64_t> vocab;
  std::optional<int64_t> max_positions;
  std::optional<int64_t> max_source_positions;  // of an encoder that reads tokens
  SpecialTokens special;
  std::vector<std::string> problems;  // what contradicts what, what is missing: one sentence each

  const File* file_of(Stage stage) const;  // null when there is none
  // The file that runs the prompt, and the one that runs later steps (the same but for pairs). Null without a decoder.
  // Of several ways: one file that takes the cache, then a pair (merged files hold both graphs and choose at run time),
  // then a merged file, then a decoder without a cache.
  const File* first_step() const;
  const File* later_step() const;
  const File* encoder() const;  // of an encoder-decoder, whatever it reads; null otherwise
  bool can_rewind() const;      // no recurrent state among the decoder's
  int64_t cache_bytes_per_token() const;
};

struct Options {
  // Which of several precisions of one model to take ("", "fp16", "quantized", "q4" …: the suffix of the file name).
  // Nothing: the plain one where it is there, else the only one; several without a plain one are a question to the user.
  std::optional<std::string> variant;
};

// `path` is a folder or one .onnx file (its folder is then searched for siblings that belong to it and for config files).
// Throws Error: kIo for a path that is not there, kBadModel for files that cannot be read, kBadArgument where two inputs
// cannot be told apart and kvik.json does not say which is which.
Signature analyze(const std::filesystem::path& path, const Options& options = {}, const Log& log = {});

// The analysis of one graph alone, without a folder; for tests and fuzzing.
File analyze_graph(std::shared_ptr<const onnx::Model> model);

}  // namespace kvik::analysis
