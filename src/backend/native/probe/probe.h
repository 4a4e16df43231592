#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/native/graph/labels.h"
#include "backend/native/probe/evaluation.h"

namespace kvik::native {

// Constants of a graph, evaluated on demand. Weights are views into the file; f16, bf16 and f64 are converted to f32. Large results of
// constant expressions (a transposed weight) are not kept. Used by one thread at a time.
class Constants {
 public:
  explicit Constants(const FlatGraph& flat) : flat_(&flat) {}

  // Refuses a value that is not constant or cannot be evaluated.
  Expected<Tensor> get(onnx::ValueId id);

 private:
  Tensor load(onnx::ValueId id);

  const FlatGraph* flat_;
  std::unordered_map<onnx::ValueId, Tensor> kept_;
  WorkBudget budget_{.largest_bytes = int64_t{1} << 34, .bytes_left = int64_t{1} << 40};  // weights may be large
};

// Evaluates values that do not depend on the contents of rows, with the reference kernels, at one set of sizes. Results are kept, so that
// one probe serves all layers. `Shape` of a row value comes from its axes. Inputs are fed as for a run over rows: masks of ones, positions
// past … past + new - 1, write index past, valid length total.
class Probe {
 public:
  using Given = std::pair<onnx::ValueId, Tensor>;

  Probe(const Labels& labels, Constants& constants, const Sizes& sizes);

  const Sizes& sizes() const { return sizes_; }
  int64_t bytes_spent() const { return WorkBudget{}.bytes_left - budget_.bytes_left; }  // by all evaluations

  // Each refuses a value that depends on a row value. Those without `try` also refuse one that the graph does not define at these sizes.
  Expected<Tensor> get(onnx::ValueId id) { return require(try_get(id)); }
  Expected<Evaluated<Tensor>> try_get(onnx::ValueId id) { return try_get_with(id, {}); }

  // The value of `target` for some given values (usually row values). Caches nothing that depends on them.
  Expected<Tensor> get_with(onnx::ValueId target, std::span<const Given> given) { return require(try_get_with(target, given)); }
  Expected<Evaluated<Tensor>> try_get_with(onnx::ValueId target, std::span<const Given> given);

  // The value of `target`, computed from these token ids [batch, new] (i64).
  Expected<Tensor> get_with_tokens(onnx::ValueId target, const Tensor& tokens) { return require(try_get_with_tokens(target, tokens)); }
  Expected<Evaluated<Tensor>> try_get_with_tokens(onnx::ValueId target, const Tensor& tokens);

 private:
  class Run;

  static Expected<Tensor> require(Expected<Evaluated<Tensor>> found) {
    if (!found) return std::move(found).refusal();
    if (!*found) return refuse(std::move(found->failure));
    return std::move(**found);
  }
  bool is_kept(onnx::ValueId id) const { return kept_.contains(id); }
  void keep(onnx::ValueId id, const Tensor& tensor);
  bool is_constant(onnx::ValueId id) const;

  const Labels* labels_;
  Constants* constants_;
  Sizes sizes_;
  std::unordered_map<onnx::ValueId, Tensor> kept_;
  int64_t kept_bytes_ = 0;
  WorkBudget budget_;
};

// Token ids [batch, new] (i64) from the middle of the vocabulary, where no special tokens are; used to compute values that do not depend on
// tokens.
Tensor ordinary_tokens(const FlatGraph& flat, const Sizes& sizes, uint32_t seed);
Tensor ordinary_tokens(int64_t vocab, const Sizes& sizes, uint32_t seed);
// The same in the shape and type of an input.
Tensor as_declared(const analysis::Port& port, const Tensor& tokens);

// What the tensors for auxiliary inputs depend on besides the inputs themselves.
struct FeedForm {
  bool encodes = false;   // of an encoder
  bool has_past = false;  // see FlatGraph
  bool one_position = false;
};
inline FeedForm feed_form(const FlatGraph& flat) {
  return {flat.file->stage == analysis::Stage::kEncoder, flat.has_past, flat.one_position};
}

// The tensor for an input that does not depend on rows: masks, positions, lengths, flags. Refuses other inputs. A null input: positions
// that an operator has built in.
Expected<Tensor> auxiliary_feed(const FeedForm& form, const analysis::Port* port, const Sizes& sizes);

// The probes of one compilation, by size, so that values shared by layers are evaluated once.
class ProbeBank {
 public:
  ProbeBank(const Labels& labels, Constants& constants) : labels_(&labels), constants_(&constants) {}

  Probe& at(const Sizes& sizes);

  // At the three sizes that identify axes (see size_triple()).
  std::span<Probe* const> triple();

 private:
  const Labels* labels_;
  Constants* constants_;
  std::vector<std::unique_ptr<Probe>> probes_;
  std::vector<Probe*> triple_;
};

}  // namespace kvik::native
