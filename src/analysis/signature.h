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

// What a model is and how to feed it, read from its files without running it: from dataflow and shapes first, then names, then config
// files. Nothing here depends on a model family.
namespace kvik::analysis {

// The part of a model that a file implements.
enum class Stage {
  kDecoder,          // tokens to logits, with or without a cache; runs the prompt and every later step
  kDecoderWithPast,  // later steps only; a kDecoder file runs the prompt
  kDecoderMerged,    // both, selected by an input
  kEncoder,          // source tokens to hidden states, or directly to cross-attention keys and values
  kAudioEncoder,     // audio features to hidden states
  kVisionEncoder,    // pixels to hidden states or classes
  kEmbedding,        // token ids to embeddings, for decoders that take embeddings
  kOther,
};

// The role of an input or output.
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
  kCrossKey,      // of cross attention: a decoder input, or an output of the encoder or of the first step
  kCrossValue,
  kRecurrentState,  // convolution, state-space or recurrent state: no growing axis
  kUseCacheBranch,
  kNumLogitsToKeep,
  kCachePosition,
  kWriteIndices,  // the first position to write in a fixed-capacity cache: one number, or one per sequence
  kKvLength,      // number of valid cache positions: one number, or one per sequence
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
  kSentenceEmbedding,  // one vector per text, pooled by the graph
  kPoolerOutput,       // the same by a layer that was trained for another task
  kOther,              // not needed for generation
};
std::string_view role_name(Role role);  // "token_ids", "past_key", …
std::optional<Role> role_named(std::string_view name);
bool is_state_role(Role role);             // past, present, cross-attention keys and values, recurrent states
std::string_view stage_name(Stage stage);  // "decoder", "decoder_with_past", "decoder_merged", "encoder", …

// How a state changes from one step to the next.
enum class Growth {
  kGrowing,    // out = past + new positions along one axis; empty at first
  kFixed,      // a buffer of fixed capacity, zero at first; lengths or write positions say what is valid
  kDelta,      // in = past, out = new positions only; the caller appends them
  kConstant,   // cross attention: computed once, never changes
  kRecurrent,  // no positions: replaced at every step, zero at first; cannot be rewound
};
std::string_view growth_name(Growth growth);  // "growing", "fixed", "delta", "constant", "recurrent"

struct Port {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<onnx::Dim> dims;  // as declared
  bool has_shape = false;
  Role role = Role::kUnknown;
  bool means_past = false;     // kKvLength: positions before this step; otherwise after it
  bool less_one = false;       // kKvLength: that number minus one
  bool unclear_count = false;  // kCachePosition, kPositionIds: one number per token, or one for all of them; only a run can tell
};

// A tensor that is an output of one step and an input of the next.
struct State {
  int input = -1;   // index into File::inputs; -1 if the file only computes it
  int output = -1;  // index into File::outputs; -1 if the file only reads it
  enum class Holds { kKey, kValue, kKeyValue, kRecurrent };
  Holds holds = Holds::kKey;
  bool cross = false;
  bool window = false;       // kFixed: keeps the newest positions only, so a sequence may be longer than `capacity`
  bool newest_last = false;  // kFixed: the newest position is the last one; older ones move toward the front
  Growth growth = Growth::kGrowing;
  int layer = 0;  // the number in its name, else its index in order; the first one if layers are stacked

  // Axes of the tensor; -1: it has no such axis (without a batch axis it holds one sequence). A merged batch-and-heads axis is both
  // batch_axis and head_axis.
  int batch_axis = 0;
  int head_axis = -1;
  int position_axis = -1;
  int feature_axis = -1;
  int layer_axis = -1;      // several layers stacked in one tensor
  int key_value_axis = -1;  // keys and values stacked along an axis of size 2 (not halves of the feature axis)

  int64_t n_layers = 1;                    // in this tensor
  int64_t n_heads = 0;                     // 0: unknown
  int64_t head_dim = 0;                    // features per head of a key or value (half of the axis if both are fused there); 0: unknown
  int64_t capacity = 0;                    // kFixed: positions
  DType dtype = DType::kUndefined;         // of the input (of the output if there is no input)
  DType output_dtype = DType::kUndefined;  // if it differs, the output must be cast
  int64_t bytes_per_token() const;         // 0 for states without positions
};

// One ONNX file of a model.
struct File {
  std::filesystem::path path;
  Stage stage = Stage::kOther;
  // Activations get one quantization scale per run (dynamic int8), so a row's results depend on the other rows of the run.
  bool quantizes_across_rows = false;
  std::shared_ptr<const onnx::Model> model;
  std::vector<Port> inputs;  // in declared order; all must be fed
  std::vector<Port> outputs;
  std::vector<State> states;             // in the order of the inputs, then of the outputs
  std::optional<int64_t> vocab;          // width of the logits, or rows of the embedding table
  std::optional<int64_t> position_rows;  // rows of the shortest table indexed by positions
  std::vector<std::string> problems;     // one sentence each

  const Port* input_of(Role role) const;  // the first one; null if there is none
  const Port* output_of(Role role) const;
  bool takes_cache() const;  // reads states other than those of cross attention
};

enum class Kind { kDecoder, kEncoderDecoder, kEncoder, kOther };
std::string_view kind_name(Kind kind);  // "decoder", "encoder-decoder", "encoder", "other"

// Layers with caches of the same shape.
struct CacheGroup {
  int n_layers = 0;
  std::vector<int> layers;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;        // of keys
  int64_t value_head_dim = 0;  // equal to head_dim except in latent attention and the like
  DType dtype = DType::kUndefined;
  Growth growth = Growth::kGrowing;
  int64_t bytes_per_token = 0;     // total of these layers
  int64_t bytes_per_sequence = 0;  // kRecurrent: total of these layers
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
  std::vector<CacheGroup> cache;        // self attention; one group per shape; recurrent states are separate groups
  std::vector<CacheGroup> cross_cache;  // per source position
  std::optional<int64_t> vocab;
  std::optional<int64_t> max_positions;
  std::optional<int64_t> max_source_positions;  // if the encoder reads tokens
  SpecialTokens special;
  std::vector<std::string> problems;  // contradictions and missing parts: one sentence each

  const File* file_of(Stage stage) const;  // null if there is none
  // The file that runs the prompt and the one that runs later steps (the same file unless they are a pair). Null without a decoder.
  // If there is a choice: one file that takes the cache, then a pair (merged files select a branch at run time), then a merged file, then
  // a decoder without a cache.
  const File* first_step() const;
  const File* later_step() const;
  const File* encoder() const;  // of an encoder-decoder, whatever its input is; null otherwise
  // The file that turns tokens into hidden states or a vector, alone or as the decoder: an encoder of texts, or a decoder whose file gives
  // them. Null if there is none.
  const File* embedder() const;
  bool only_embeds() const;  // there is such a file, and nothing that generates
  bool can_rewind() const;   // the decoder has no recurrent state
  int64_t cache_bytes_per_token() const;
};

struct Options {
  // Which precision to take if there are several ("", "fp16", "quantized", "q4" ...: the suffix of the file name). If not set: the file
  // without a suffix, else the only file; several files that all have suffixes are an error.
  std::optional<std::string> variant;
};

// `path` is a folder or an .onnx file; its folder is then searched for other files of the same model and for config files. Throws Error:
// kIo if the path does not exist, kBadModel for files that cannot be read, kBadArgument if two inputs cannot be distinguished and
// kvik.json does not name their roles.
Signature analyze(const std::filesystem::path& path, const Options& options = {}, const Log& log = {});

// Analyzes one graph without its folder; for tests and fuzzing.
File analyze_graph(std::shared_ptr<const onnx::Model> model);

}  // namespace kvik::analysis
