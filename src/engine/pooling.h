#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

// Pools hidden states into one vector, as sentence-transformers does. Sums are in double precision and in a fixed order, so that a text's
// vector depends only on its hidden states.
namespace kvik::engine {

enum class Pooling { kCls, kMax, kMean, kMeanSqrtLen, kWeightedMean, kLastToken };
std::string_view pooling_name(Pooling pooling);  // "cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken"

// Parses names joined by '+'. Throws Error(kBadArgument) that lists the choices.
std::vector<Pooling> parse_pooling(std::string_view names);
std::string pooling_names(std::span<const Pooling> poolings);  // the inverse

// `hidden`: [tokens, size]. Vectors of several poolings are concatenated. Means and maxima skip the first `n_skipped` tokens.
std::vector<float> pool(const Tensor& hidden, std::span<const Pooling> poolings, int64_t n_skipped);

// To length 1; a vector of zeros stays as it is.
void normalize(std::vector<float>& vector);

enum class Activation { kNone, kTanh, kRelu, kGelu, kSigmoid, kSilu };

struct DenseLayer {
  Tensor weight;            // [out, in] f32
  std::vector<float> bias;  // [out], or empty
  Activation activation = Activation::kNone;
};
struct NormalizeLayer {};
using VectorLayer = std::variant<DenseLayer, NormalizeLayer>;

// Throws Error(kBadModel) if the sizes do not match.
std::vector<float> apply(const DenseLayer& layer, std::span<const float> vector);

}  // namespace kvik::engine
