#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace kvik::onnx {

double sigmoid(double x);
double gelu(double x);       // by the error function
double tanh_gelu(double x);  // its approximation by tanh

struct ActivationParameters {
  std::optional<float> alpha, beta;
};

// The activation that an attribute names; none for an empty name. Throws Error(kUnsupported) for an unknown one.
std::function<double(double)> named_activation(std::string_view name, const ActivationParameters& with);

}  // namespace kvik::onnx
