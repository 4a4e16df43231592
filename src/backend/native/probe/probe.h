#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/native/graph/labels.h"
#include "backend/native/probe/evaluation.h"

namespace kvik::native {

// Constants of a graph, evaluated when somebody asks. Weights are views into the file; f16, bf16 and f64 come as f32.
// Large results of constant expressions (a transposed weight) are not kept. Not for use by two threads at a time.
class Constants {
 public:
  explicit Constants(const FlatGraph& flat) : flat_(&flat) {}

  // Refuses a value that is not constant, and one that cannot be evaluated.
  Expected<Tensor> get(onnx::ValueId id);

 private:
  Tensor load(onnx::ValueId id);

  const FlatGraph* flat_;
  std::unordered_map<onnx::ValueId, Tensor> kept_;
  WorkBudget budget_{.largest_bytes = int64_t{1} << 34, .bytes_left = int64_t{1} << 40};  // weights may be large
};

// Evaluates whatever does not depend on the contents of rows, with the reference kernels, at one set of sizes. Results are kept,
// so that one probe serves all layers. `Shape` of a row value comes from its axes. Inputs are fed as a runtime of rows means them:
// masks of ones, positions past … past + new - 1, write index past, valid length total.
class Probe {
 public:
  using Given = std::pair<onnx::ValueId, Tensor>;

  Probe(const Labels& labels, Constants& constants, const Sizes& sizes);

  const Sizes& sizes() const { return sizes_; }
  int64_t bytes_spent() const { return WorkBudget{}.bytes_left - budget_.bytes_left; }  // by all evaluations

  // Each refuses a value that depends on a row value. Those without `try` also refuse one that the graph does not define at these sizes.
  Expected<Tensor> get(onnx::ValueId id) { return require(try_get(id)); }
  Expected<Evaluated<Tensor>> try_get(onnx::ValueId id) { return try_get_with(id, {}); }

  // The value of `target` where some values (row values, as a rule) are given. Keeps nothing that depends on them.
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

// Token ids [batch, new] (i64) out of the middle of the vocabulary, where no special token is: what a value that turned out not to
// depend on tokens is computed from.
Tensor ordinary_tokens(const FlatGraph& flat, const Sizes& sizes, uint32_t seed);
Tensor ordinary_tokens(int64_t vocab, const Sizes& sizes, uint32_t seed);
// The same as an input declares them.
Tensor as_declared(const analysis::Port& port, const Tensor& tokens);

// What the tensors for auxiliary inputs depend on beside the inputs themselves.
struct FeedForm {
  bool encodes = false;   // of an encoder
  bool has_past = false;  // see FlatGraph
  bool one_position = false;
};
inline FeedForm feed_form(const FlatGraph& flat) {
  return {flat.file->stage == analysis::Stage::kEncoder, flat.has_past, flat.one_position};
}

// The tensor for an input that does not depend on rows: masks, positions, lengths, switches. Refuses the others. Null: the positions that
// an operator has built in.
Expected<Tensor> auxiliary_feed(const FeedForm& form, const analysis::Port* port, const Sizes& sizes);

// The probes of one compilation, by size: what does not depend on a layer is evaluated once.
class ProbeBank {
 public:
  ProbeBank(const Labels& labels, Constants& constants) : labels_(&labels), constants_(&constants) {}

  Probe& at(const Sizes& sizes);

  // At the sizes that axes are told apart by (see size_triple()).
  std::span<Probe* const> triple();

 private:
  const Labels* labels_;
  Constants* constants_;
  std::vector<std::unique_ptr<Probe>> probes_;
  std::vector<Probe*> triple_;
};

}  // namespace kvik::native
