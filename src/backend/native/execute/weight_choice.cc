#include "backend/native/execute/weight_choice.h"

#include <algorithm>

namespace kvik::native {
namespace {

using cpu::WeightFormat;

struct Uses {
  bool multiplied = false, looked_up = false, gives_output = false;
};

std::vector<Uses> uses_of(const Plan& plan) {
  std::vector<Uses> uses(plan.weights.size());
  for (const Op& op : plan.ops) {
    if (const auto* embed = op.as<Embed>()) uses[static_cast<size_t>(embed->weight)].looked_up = true;
    if (const auto* matmul = op.as<Matmul>()) {
      for (const int w : matmul->weights) {
        uses[static_cast<size_t>(w)].multiplied = true;
        if (plan.output.is_value() && op.out.front() == plan.output.index) uses[static_cast<size_t>(w)].gives_output = true;
      }
    }
  }
  return uses;
}

WeightFormat float_format(DType stored) {
  return stored == DType::kF16 ? WeightFormat::kF16 : stored == DType::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF32;
}

int64_t bytes_of(WeightFormat format, const PlanWeight& weight) {
  switch (format) {
    case WeightFormat::kBlocks8:
    case WeightFormat::kBlocks6:
    case WeightFormat::kBlocks4: return cpu::block_layout(blocks_of(format, weight.k), weight.k, weight.n).size_bytes;
    case WeightFormat::kChannels8: return cpu::channel_layout(weight.k, weight.n).size_bytes;
    default: return cpu::float_layout(format, weight.k, weight.n).size_bytes;
  }
}

bool is_four_bits(const Plan& plan, const WeightPart& part) {
  const DType dtype = stored_dtype(plan, part);
  return dtype == DType::kU4 || dtype == DType::kI4 || part.quantization.bits == 4;
}

// Scales that the kernels can keep: not one for each k, and blocks of a power of two from 16 on.
bool keeps_codes(const Plan& plan, const WeightPart& part) {
  const int64_t block = part.quantization.block;
  if (block > 0 && (block < 16 || (block & (block - 1)) != 0)) return false;
  if (part.quantization.kind != Quantization::Kind::kLinear || block > 0) return true;
  const onnx::TensorData* scales = stored_data(plan, part.scales);
  const bool along_k = part.quantization.axis == (part.n_major ? 1 : 0);
  return scales != nullptr && (scales->n_elements == 1 || !along_k);
}

ChosenWeight choose(const Plan& plan, const PlanWeight& weight, const Uses& uses, WeightChoice choice) {
  ChosenWeight chosen;
  const WeightPart& part = weight.parts.front();
  const bool quantized = static_cast<bool>(part.quantization);
  chosen.is_multiplied = uses.multiplied;
  chosen.activations = weight.activations;
  if (!uses.multiplied) {
    chosen.as_stored = quantized;
    chosen.format =
        quantized ? (is_four_bits(plan, part) ? WeightFormat::kBlocks4 : WeightFormat::kBlocks8) : float_format(stored_dtype(plan, part));
    chosen.size_bytes = static_cast<int64_t>(storage_bytes(stored_dtype(plan, part), weight.k * weight.n));
    return chosen;
  }
  const bool quantizes = choice == WeightChoice::kQ8 || choice == WeightChoice::kQ4;
  if (weight.activations == Activations::kBytes) {  // an integer product keeps its meaning in every format
    chosen.as_stored = true;
    chosen.format = WeightFormat::kChannels8;
  } else if (quantized && keeps_codes(plan, part) && choice != WeightChoice::kF32 && choice != WeightChoice::kF16) {
    chosen.as_stored = true;
    chosen.format = is_four_bits(plan, part) ? WeightFormat::kBlocks4 : WeightFormat::kBlocks8;
    if (quantizes) chosen.activations = Activations::kBlocks;
  } else if (quantizes) {
    // The output head and the embedding table keep six bits, because four cost more quality there than anywhere else.
    const WeightFormat four = uses.looked_up || uses.gives_output ? WeightFormat::kBlocks6 : WeightFormat::kBlocks4;
    chosen.format = choice == WeightChoice::kQ8 ? WeightFormat::kBlocks8 : four;
    chosen.activations = Activations::kBlocks;
  } else {
    chosen.format = choice == WeightChoice::kF16   ? WeightFormat::kF16
                    : choice == WeightChoice::kF32 ? WeightFormat::kF32
                                                   : float_format(quantized ? DType::kF32 : stored_dtype(plan, part));
    chosen.activations = Activations::kFloats;
  }
  chosen.size_bytes = bytes_of(chosen.format, weight);
  return chosen;
}

}  // namespace

std::vector<ChosenWeight> choose_weights(const Plan& plan, WeightChoice choice) {
  const std::vector<Uses> uses = uses_of(plan);
  std::vector<ChosenWeight> chosen;
  for (size_t i = 0; i < plan.weights.size(); ++i) chosen.push_back(choose(plan, plan.weights[i], uses[i], choice));
  return chosen;
}

std::string_view format_name(const ChosenWeight& weight) {
  switch (weight.format) {
    case WeightFormat::kF16: return "f16";
    case WeightFormat::kBF16: return "bf16";
    case WeightFormat::kBlocks8: return "q8";
    case WeightFormat::kBlocks6: return "q6";
    case WeightFormat::kBlocks4: return "q4";
    case WeightFormat::kChannels8: return "int8";
    default: return "f32";
  }
}

}  // namespace kvik::native
