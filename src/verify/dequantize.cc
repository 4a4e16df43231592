#include "verify/dequantize.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "backend/graph/convert.h"
#include "backend/native/execute/weight_choice.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/stages.h"
#include "kernels/cpu/quantize_block.h"

namespace kvik::laws {
namespace {

using Tensors = std::map<std::string, Tensor, std::less<>>;  // by the name of their initializer

// Dequantizes each block along k.
void round_to_codes(std::span<float> values, const native::WeightPart& part, const cpu::BlockFormat& format) {
  const int64_t k_stride = part.n_major ? 1 : part.n, n_stride = part.n_major ? part.k : 1;
  float* const matrix = values.data() + std::max<int64_t>(part.slice, 0) * part.k * part.n;
  std::vector<float> weights(static_cast<size_t>(format.block));
  std::vector<int8_t> codes(weights.size());
  const int bias = cpu::code_bias(format.bits);
  for (int64_t n = 0; n < part.n; ++n) {
    for (int64_t first = 0; first < part.k; first += format.block) {
      const auto count = static_cast<size_t>(std::min<int64_t>(format.block, part.k - first));
      float* const block = matrix + n * n_stride + first * k_stride;
      for (size_t i = 0; i < count; ++i) weights[i] = block[static_cast<int64_t>(i) * k_stride];
      const float scale = cpu::quantize_block(std::span(weights).first(count), format.bits, std::span(codes).first(count));
      for (size_t i = 0; i < count; ++i) block[static_cast<int64_t>(i) * k_stride] = static_cast<float>(codes[i] - bias) * scale;
    }
  }
}

bool is_quantized_at_load(const native::ChosenWeight& chosen) {
  return chosen.is_multiplied && !chosen.as_stored && cpu::block_bits(chosen.format) > 0;
}

// False if a quantized weight of the plan is not an initializer.
bool collect(const native::Plan& plan, native::WeightChoice choice, Tensors& rounded) {
  const std::vector<native::ChosenWeight> chosen = native::choose_weights(plan, choice);
  std::set<std::pair<int, int64_t>> done;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!is_quantized_at_load(chosen[i])) continue;
    for (const native::WeightPart& part : plan.weights[i].parts) {
      const native::ModelTensor& stored = plan.tensors[static_cast<size_t>(part.value)];
      if (stored.expression != nullptr || part.quantization || !is_float(stored.data.dtype)) return false;
      if (!done.emplace(part.value, part.slice).second) continue;  // several ops read it
      Tensor& tensor = rounded[stored.name];
      if (!tensor.defined()) tensor = backend::cast_float(onnx::load(stored.data), DType::kF32);
      round_to_codes(tensor.mutable_data<float>(), part, native::blocks_of(chosen[i].format, part.k));
    }
  }
  return true;
}

// The file with these initializers; null if it lacks one of them.
std::shared_ptr<const onnx::Model> with_initializers(const onnx::Model& model, const Tensors& tensors) {
  auto graph = std::make_shared<onnx::Graph>(*model.graph);
  for (const auto& [name, tensor] : tensors) {
    const auto found = std::find_if(graph->initializers.begin(), graph->initializers.end(),
                                    [&](const onnx::TensorData& data) { return data.name == name; });
    if (found == graph->initializers.end() || found->dims != tensor.dims()) return nullptr;
    const std::string_view stored_name = found->name;
    *found = native::stored_in_memory(backend::cast_float(tensor, found->dtype));
    found->name = stored_name;
  }
  auto changed = std::make_shared<onnx::Model>(model);
  changed->graph = std::move(graph);
  return changed;
}

}  // namespace

std::optional<analysis::Signature> dequantized(const analysis::Signature& signature, const backend::NativeOptions& options) {
  const native::Stages stages = native::take(native::compile_stages(signature, {options.context, options.no_fuse}));
  Tensors decoder, encoder;
  if (stages.decoder != nullptr && !collect(*stages.decoder, options.weights, decoder)) return std::nullopt;
  if (stages.encoder != nullptr && !collect(*stages.encoder, options.weights, encoder)) return std::nullopt;
  analysis::Signature changed = signature;
  const analysis::File* const files[] = {signature.first_step(), signature.later_step(), signature.encoder()};
  for (size_t i = 0; i < signature.files.size(); ++i) {
    const analysis::File* const file = &signature.files[i];
    if (std::find(std::begin(files), std::end(files), file) == std::end(files)) continue;
    changed.files[i].model = with_initializers(*file->model, file == signature.encoder() ? encoder : decoder);
    if (changed.files[i].model == nullptr) return std::nullopt;
  }
  return changed;
}

}  // namespace kvik::laws
