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

// Sizes that both declare are the same; the batch is whatever it is.
bool fits(const Port& made, const Port& read) {
  if (!made.has_shape || !read.has_shape) return true;
  if (made.dims.size() != read.dims.size()) return false;
  for (size_t i = 1; i < made.dims.size(); ++i) {
    if (made.dims[i].value >= 0 && read.dims[i].value >= 0 && made.dims[i].value != read.dims[i].value) return false;
  }
  return true;
}

std::string misfit(const File& encoder, const Port& made, const File& decoder, const Port& read) {
  return fmt::format("{} reads '{}' as {}, and {} gives '{}' as {}: they are not of one model", decoder.path.filename().string(), read.name,
                     shape_of(read), encoder.path.filename().string(), made.name, shape_of(made));
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
    found.push_back(fmt::format("{} reads '{}', and {} gives no hidden states", decoder.path.filename().string(), read->name,
                                encoder.path.filename().string()));
  } else if (read != nullptr && !fits(*made, *read)) {
    found.push_back(misfit(encoder, *made, decoder, *read));
  }
  for (const State& state : decoder.states) {
    if (!state.cross || state.input < 0) continue;
    const State* source = cross_state_of(encoder, state);
    if (source == nullptr) continue;
    const Port& given = encoder.outputs[static_cast<size_t>(source->output)];
    const Port& wanted = decoder.inputs[static_cast<size_t>(state.input)];
    if (fits(given, wanted)) continue;
    found.push_back(misfit(encoder, given, decoder, wanted));
    return;  // the other layers would say the same
  }
}

}  // namespace

std::vector<std::string> encoder_misfits(const Signature& signature) {
  std::vector<std::string> found;
  if (signature.kind != Kind::kEncoderDecoder) return found;
  const File* encoder = signature.encoder();
  if (encoder == nullptr) {
    const File* decoder = signature.first_step() != nullptr ? signature.first_step() : signature.later_step();
    found.push_back(fmt::format("{} attends to an encoder, and no encoder file was found beside it",
                                decoder != nullptr ? decoder->path.filename().string() : "the decoder"));
    return found;
  }
  const File* first = signature.first_step();
  const File* later = signature.later_step();
  if (first != nullptr) check_file(*encoder, *first, found);
  if (later != nullptr && later != first && found.empty()) check_file(*encoder, *later, found);
  return found;
}

}  // namespace kvik::analysis
