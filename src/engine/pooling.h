#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

// The arithmetic from hidden states to one vector, as sentence-transformers does it. Sums run in double precision and in one order, so
// that a text's vector depends on nothing but its hidden states.
namespace kvik::engine {

enum class Pooling { kCls, kMax, kMean, kMeanSqrtLen, kWeightedMean, kLastToken };
std::string_view pooling_name(Pooling pooling);  // "cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken"

// Names joined by '+'. Throws Error(kBadArgument) with the choices.
std::vector<Pooling> parse_pooling(std::string_view names);
std::string pooling_names(std::span<const Pooling> poolings);  // back again

// `hidden`: [tokens, size]. Vectors of several poolings are joined. Means and maxima leave out the first `n_skipped` tokens.
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

// Throws Error(kBadModel) if the vector does not fit.
std::vector<float> apply(const DenseLayer& layer, std::span<const float> vector);

}  // namespace kvik::engine
