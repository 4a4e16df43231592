#include "backend/graph/encoder_feeds.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/graph/convert.h"
#include "backend/graph/feeds.h"
#include "kvik/error.h"

namespace kvik::backend {

using analysis::Port;
using analysis::Role;

namespace {

// Checks declared sizes first, because ONNX Runtime's message would be unclear.
void check_shape(const Port& port, const Dims& given) {
  bool fits = !port.has_shape || port.dims.size() == given.size();
  for (size_t i = 1; fits && port.has_shape && i < given.size(); ++i) fits = port.dims[i].value < 0 || port.dims[i].value == given[i];
  if (fits) return;
  Dims wanted;
  for (const onnx::Dim& dim : port.dims) wanted.push_back(dim.value);
  throw Error(Code::kBadArgument,
              fmt::format("the encoder input '{}' has shape {} (-1: any); got {}", port.name, to_string(wanted), to_string(given)));
}

}  // namespace

std::vector<NamedValue> encoder_feeds(const analysis::File& file, std::span<const Tensor> inputs, Executor& executor) {
  const auto n_sequences = static_cast<int64_t>(inputs.size());
  Dims dims = inputs.front().dims();
  dims.insert(dims.begin(), n_sequences);
  const bool tokens = inputs.front().dtype() == DType::kI64;
  Tensor joined(inputs.front().dtype(), dims);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::copy(inputs[i].bytes().begin(), inputs[i].bytes().end(),
              joined.mutable_bytes().begin() + static_cast<ptrdiff_t>(i * inputs[i].size_bytes()));
  }

  std::vector<NamedValue> feeds;
  for (const Port& port : file.inputs) {
    Tensor tensor;
    if (port.role == Role::kAttentionMask || port.role == Role::kTokenTypeIds) {
      tensor = shape_feed(port, {n_sequences, 0, dims[1], true});
    } else if (port.role == Role::kTokenIds || port.role == Role::kAudioFeatures || port.role == Role::kPixelValues) {
      if (tokens != (port.role == Role::kTokenIds)) {
        throw Error(Code::kBadArgument, fmt::format("the encoder reads '{}' ({}); {} were given", port.name, analysis::role_name(port.role),
                                                    tokens ? "token ids" : "features"));
      }
      check_shape(port, dims);
      tensor = tokens ? cast_integer(joined, port.dtype) : cast_float(joined, port.dtype);
    } else {
      throw Error(Code::kUnsupported,
                  fmt::format("{}: the role of input '{}' is unknown; name it in kvik.json", file.path.string(), port.name));
    }
    feeds.push_back({port.name, executor.from_host(std::move(tensor))});
  }
  return feeds;
}

}  // namespace kvik::backend
