#include "analysis/fit.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kvik::analysis {
namespace {

std::string shape_of(const Port& port) {
  std::vector<std::string> dims;
  for (const onnx::Dim& dim : port.dims) dims.push_back(dim.value >= 0 ? std::to_string(dim.value) : std::string(dim.symbol));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

// Sizes that both declare are equal, except those of the batch.
bool fits(const Port& made, const Port& read, int batch_axis) {
  if (!made.has_shape || !read.has_shape) return true;
  if (made.dims.size() != read.dims.size()) return false;
  for (size_t i = 0; i < made.dims.size(); ++i) {
    if (static_cast<int>(i) == batch_axis) continue;
    if (made.dims[i].value >= 0 && read.dims[i].value >= 0 && made.dims[i].value != read.dims[i].value) return false;
  }
  return true;
}

std::string misfit(const File& encoder, const Port& made, const File& decoder, const Port& read) {
  return fmt::format("{} reads '{}' as {}, and {} outputs '{}' as {}: they are not from the same model; export both again",
                     decoder.path.filename().string(), read.name, shape_of(read), encoder.path.filename().string(), made.name,
                     shape_of(made));
}

const State* cross_state_of(const File& file, const State& like) {
  const auto found = std::find_if(file.states.begin(), file.states.end(), [&](const State& state) {
    return state.cross && state.output >= 0 && state.layer == like.layer && state.holds == like.holds;
  });
  return found == file.states.end() ? nullptr : &*found;
}

void check_file(const File& encoder, const File& decoder, std::vector<std::string>& found) {
  const Port* read = decoder.input_of(Role::kEncoderHiddenStates);
  const Port* made = encoder.output_of(Role::kHiddenStates);
  if (read != nullptr && made == nullptr) {
    found.push_back(fmt::format("{} reads '{}', and {} does not output hidden states; export both again", decoder.path.filename().string(),
                                read->name, encoder.path.filename().string()));
  } else if (read != nullptr && !fits(*made, *read, 0)) {
    found.push_back(misfit(encoder, *made, decoder, *read));
  }
  for (const State& state : decoder.states) {
    if (!state.cross || state.input < 0) continue;
    const State* source = cross_state_of(encoder, state);
    if (source == nullptr) continue;
    const Port& given = encoder.outputs[static_cast<size_t>(source->output)];
    const Port& wanted = decoder.inputs[static_cast<size_t>(state.input)];
    if (fits(given, wanted, state.batch_axis)) continue;
    found.push_back(misfit(encoder, given, decoder, wanted));
    return;  // the same is true of the other layers
  }
}

}  // namespace

std::vector<std::string> generation_problems(const Signature& signature) {
  std::vector<std::string> found;
  const File* first = signature.first_step();
  const File* later = signature.later_step();
  for (const File* file : {first, later}) {
    if (file == nullptr || file->output_of(Role::kLogits) != nullptr || !found.empty()) continue;
    const bool hidden = file->output_of(Role::kHiddenStates) != nullptr;
    found.push_back(fmt::format("{} outputs {}, so text cannot be generated with it; export the model with its language-model head",
                                file->path.filename().string(), hidden ? "hidden states and no logits" : "no logits"));
  }
  if (signature.kind != Kind::kEncoderDecoder) return found;
  const File* encoder = signature.encoder();
  if (encoder == nullptr) {
    found.push_back(fmt::format("{} attends to an encoder, and no encoder file was found next to it; export the encoder too",
                                first != nullptr ? first->path.filename().string() : "the decoder"));
    return found;
  }
  if (first != nullptr) check_file(*encoder, *first, found);
  if (later != nullptr && later != first && found.empty()) check_file(*encoder, *later, found);
  return found;
}

}  // namespace kvik::analysis
