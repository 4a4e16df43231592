#include "kvik/inspect.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "convert.h"
#include "options.h"

namespace kvik::python {

void bind_inspect(nb::module_& module) {
  // As JSON: the fields of `kvik inspect --json`, defined in one place.
  module.def(
      "inspect",
      [](const std::string& path_or_name, const nb::kwargs& options) {
        return text_of(Call().run([&, load = load_options(options)] { return to_json(inspect(path_or_name, load)); }));
      },
      nb::arg("path_or_name"), nb::arg("options"));
  module.def(
      "folder_of",
      [](const std::string& path_or_name) {
        return Call().run([&] { return inspect(path_or_name, {.backend = BackendChoice::kReference}).folder; });
      },
      nb::arg("path_or_name"), "The folder of a model.");
  nb::class_<ModelInfo>(module, "ModelInfo", "A model on the search path or in the hub cache.")
      .def_ro("name", &ModelInfo::name)
      .def_ro("folder", &ModelInfo::folder)
      .def_ro("kind", &ModelInfo::kind)
      .def_ro("weights_bytes", &ModelInfo::weights_bytes)
      .def_ro("cache_bytes", &ModelInfo::cache_bytes, "For one sequence of the maximum length.")
      .def_ro("fits", &ModelInfo::fits, "Whether it fits into free memory.")
      .def_ro("recommended", &ModelInfo::recommended, "The largest of its kind that fits.")
      .def("__repr__", [](const ModelInfo& self) {
        return nb::str("kvik.ModelInfo({!r}, {}, {:.1f} MB)")
            .format(text_of(self.name), text_of(self.kind), static_cast<double>(self.weights_bytes) / 1e6);
      });
  module.def("list_models", [] { return Call().run([] { return list_models(); }); });
}

}  // namespace kvik::python
