#include "inputs.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert.h"

namespace kvik::python {
namespace {

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using FloatArrays = std::vector<FloatArray>;

std::vector<Features> features_of(const FloatArrays& arrays) {
  std::vector<Features> all;
  for (const FloatArray& array : arrays) {
    Features& features = all.emplace_back();
    for (size_t axis = 0; axis < array.ndim(); ++axis) features.shape.push_back(static_cast<int64_t>(array.shape(axis)));
    features.values.assign(array.data(), array.data() + array.size());
  }
  return all;
}

// An empty list is one of texts.
template <class Inputs>
bool take_texts(nb::handle list, Inputs& inputs) {
  std::vector<std::string> texts;
  for (const nb::handle text : list) {
    if (!PyUnicode_Check(text.ptr())) return false;
    texts.push_back(utf8_of(text));
  }
  inputs = std::move(texts);
  return true;
}

}  // namespace

Sources sources_of(nb::handle list) {
  Sources sources;
  if (take_texts(list, sources)) return sources;
  FloatArrays arrays;
  if (nb::try_cast(list, arrays, false)) return features_of(arrays);
  return token_id_lists(list);
}

Texts texts_of(nb::handle list) {
  Texts texts;
  if (!take_texts(list, texts)) texts = token_id_lists(list);
  return texts;
}

Recording recording_of(nb::handle audio, int sample_rate) {
  FloatArray samples;
  if (nb::try_cast(audio, samples, false) && samples.ndim() == 1)
    return Samples{.values = {samples.data(), samples.data() + samples.size()}, .rate = sample_rate};
  FloatArrays windows;
  if (nb::try_cast(audio, windows, false)) return features_of(windows);
  return nb::cast<std::filesystem::path>(audio);
}

}  // namespace kvik::python
