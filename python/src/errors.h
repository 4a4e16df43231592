#pragma once

#include <nanobind/nanobind.h>

#include "kvik/options.h"

namespace kvik::python {

// Returns if everything was appended; otherwise throws kvik.Error with the code "context_full" or "no_memory". Holds the GIL.
void check_appended(AppendStatus status);

}  // namespace kvik::python
