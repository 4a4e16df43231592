#include "bindings.h"

NB_MODULE(_kvik, module) {
  using namespace kvik::python;
  module.doc() = "The public C++ API of Kvik. Use the package kvik, which documents it.";
  bind_errors(module);
  bind_options(module);
  bind_session(module);
  bind_generation(module);
  bind_engine(module);
  bind_results(module);
  bind_model(module);
  bind_text(module);
  bind_inspect(module);
  bind_server(module);
}
