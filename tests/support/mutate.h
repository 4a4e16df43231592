#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>

#include "onnx/graph.h"

namespace kvik::testing_support {

// A model with one thing changed: a permutation, an axis, an operator, the order of operands, a number among its small constants.
struct Mutant {
  std::shared_ptr<const onnx::Model> model;
  std::string what;  // was done to it
};

// Nothing where the draw found nothing to change.
std::optional<Mutant> mutate(const std::shared_ptr<const onnx::Model>& model, std::mt19937& random);

}  // namespace kvik::testing_support
