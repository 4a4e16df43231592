#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backend/native/labels.h"
#include "backend/native/refusal.h"

namespace kvik::native {

// Constants of a graph, evaluated when somebody asks. Weights are views into the file; f16, bf16 and f64 come as f32.
// Large results of constant expressions (a transposed weight) are not kept. Not for use by two threads at a time.
class Constants {
 public:
  explicit Constants(const FlatGraph& flat) : flat_(&flat) {}

  Tensor get(onnx::ValueId id);

 private:
  const FlatGraph* flat_;
  std::map<onnx::ValueId, Tensor> kept_;
};

// Evaluates whatever does not depend on the contents of rows, with the reference kernels, at one set of sizes. Results are kept,
// so that one probe serves all layers. `Shape` of a row value comes from its axes. Inputs are fed as a runtime of rows means them:
// masks of ones, positions past … past + new - 1, write index past, valid length total.
class Probe {
 public:
  Probe(const Labels& labels, Constants& constants, const Sizes& sizes);

  const Sizes& sizes() const { return sizes_; }

  // Throws Refusal where it depends on a row value, or would be absurdly large; Error where a kernel fails (a baked-in table that
  // is too small for these sizes, for instance).
  Tensor get(onnx::ValueId id);

  // The value of `target` where some values (row values, as a rule) are given. Keeps nothing that depends on them.
  Tensor get_with(onnx::ValueId target, std::span<const std::pair<onnx::ValueId, Tensor>> given);

  // The value of `target`, computed from these token ids [batch, new] (i64).
  Tensor get_with_tokens(onnx::ValueId target, const Tensor& tokens);

 private:
  const Labels* labels_;
  Constants* constants_;
  Sizes sizes_;
  std::map<onnx::ValueId, Tensor> kept_;
};

// The probes of one compilation, by size: what does not depend on a layer is evaluated once.
class ProbeBank {
 public:
  ProbeBank(const Labels& labels, Constants& constants) : labels_(&labels), constants_(&constants) {}

  Probe& at(const Sizes& sizes);

  // The sizes that axes are told apart by: every symbol has another triple of numbers.
  std::span<Probe* const> triple();

 private:
  const Labels* labels_;
  Constants* constants_;
  std::vector<std::unique_ptr<Probe>> probes_;
  std::vector<Probe*> triple_;
};

}  // namespace kvik::native
