#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>

#include "analysis/signature.h"

namespace kvik::testing_support {

// A model with one thing changed: a permutation, an axis, an operator, the order of operands, a number among its small constants. In a
// merged decoder, whose nodes are in the branches of an If, the flag that chooses one becomes a constant, and the thing that is changed is
// in the branch that is left: the other one would contradict it.
struct Mutant {
  std::shared_ptr<const onnx::Model> model;
  std::string what;            // was done to it
  bool cached_branch = false;  // the branch that is left of a merged decoder
};

// Nothing if the draw found nothing to change.
std::optional<Mutant> mutate(const analysis::File& file, std::mt19937& random);

// The model with the last bit of each f32 weight changed at random: how far its results move is how far rounding decides them.
std::shared_ptr<const onnx::Model> with_rounded_weights(const std::shared_ptr<const onnx::Model>& model, std::mt19937& random);

}  // namespace kvik::testing_support
