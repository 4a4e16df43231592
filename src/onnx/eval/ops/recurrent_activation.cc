#include "onnx/eval/ops/recurrent_activation.h"

#include <algorithm>
#include <cmath>

namespace kvik::onnx {
namespace {

// Parameters are listed in the order of the activations; activations without parameters are skipped.
class Parameters {
 public:
  explicit Parameters(std::vector<float> values) : values_(std::move(values)) {}
  double next(double absent) { return at_ < values_.size() ? static_cast<double>(values_[at_++]) : absent; }

 private:
  std::vector<float> values_;
  size_t at_ = 0;
};

std::string lowered(std::string_view name) {
  std::string result(name);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

Activation activation_of(std::string_view given, Parameters& alphas, Parameters& betas) {
  const std::string name = lowered(given);
  if (name == "sigmoid") return [](double x) { return 1 / (1 + std::exp(-x)); };
  if (name == "tanh") return [](double x) { return std::tanh(x); };
  if (name == "relu") return [](double x) { return std::max(x, 0.0); };
  if (name == "softsign") return [](double x) { return x / (1 + std::fabs(x)); };
  if (name == "softplus") return [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); };
  if (name == "leakyrelu") return [a = alphas.next(0.01)](double x) { return x < 0 ? a * x : x; };
  if (name == "thresholdedrelu") return [a = alphas.next(1.0)](double x) { return x > a ? x : 0.0; };
  if (name == "elu") return [a = alphas.next(1.0)](double x) { return x < 0 ? a * std::expm1(x) : x; };
  if (name == "affine") return [a = alphas.next(1.0), b = betas.next(0.0)](double x) { return a * x + b; };
  if (name == "scaledtanh") return [a = alphas.next(1.0), b = betas.next(1.0)](double x) { return a * std::tanh(b * x); };
  if (name == "hardsigmoid") return [a = alphas.next(0.2), b = betas.next(0.5)](double x) { return std::clamp(a * x + b, 0.0, 1.0); };
  refuse("the activation '{}' is unknown", given);
}

}  // namespace

std::vector<Activation> activations_of(const Node& node, const std::vector<std::string_view>& defaults, size_t n_directions) {
  std::vector<std::string_view> names;
  if (const Attribute* given = node.find("activations")) {
    const auto* list = std::get_if<std::vector<std::string_view>>(&given->data);
    require(list != nullptr, "activations is not a list of names");
    names = *list;
  }
  if (names.empty()) {
    for (size_t d = 0; d < n_directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  require(names.size() == defaults.size() * n_directions, "found {} activations; expected {}", names.size(),
          defaults.size() * n_directions);
  Parameters alphas(node.floats_or("activation_alpha", {}));
  Parameters betas(node.floats_or("activation_beta", {}));
  std::vector<Activation> result;
  for (const std::string_view name : names) result.push_back(activation_of(name, alphas, betas));
  return result;
}

}  // namespace kvik::onnx
