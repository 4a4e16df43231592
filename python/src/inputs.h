#pragma once

#include <nanobind/nanobind.h>

#include "kvik/engine.h"

// What Python passes to the calls that take a list or a recording. The caller holds the GIL. Numbers are copied: the library reads them
// without it.
namespace kvik::python {

namespace nb = nanobind;

// Lists of str, of float32 arrays (features), or of token ids.
Sources sources_of(nb::handle list);
Texts texts_of(nb::handle list);
// A path, a list of float32 arrays (windows of features), or a float32 array of samples.
Recording recording_of(nb::handle audio, int sample_rate);

}  // namespace kvik::python
