#pragma once

#include <nanobind/nanobind.h>

// The module kvik._kvik: the public C++ API for the classes in python/kvik, which users see. Each function adds one part of it.
namespace kvik::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_options(nb::module_& module);
void bind_session(nb::module_& module);
void bind_generation(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_results(nb::module_& module);
void bind_model(nb::module_& module);
void bind_text(nb::module_& module);
void bind_inspect(nb::module_& module);
void bind_server(nb::module_& module);

}  // namespace kvik::python
