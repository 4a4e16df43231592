#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace kvik::onnx {

double sigmoid(double x);
double gelu(double x);       // exact, with erf
double tanh_gelu(double x);  // tanh approximation

struct ActivationParameters {
  std::optional<float> alpha, beta;
};

// The activation function of an attribute; null for an empty name. Throws Error(kUnsupported) for an unknown one.
std::function<double(double)> named_activation(std::string_view name, const ActivationParameters& with);

}  // namespace kvik::onnx
