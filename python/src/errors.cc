#include "errors.h"

#include "bindings.h"
#include "convert.h"
#include "gil.h"
#include "kvik/error.h"
#include "kvik/version.h"

namespace kvik::python {
namespace {

const char* name_of(Code code) {
  switch (code) {
    case Code::kBadArgument: return "bad_argument";
    case Code::kBadModel: return "bad_model";
    case Code::kUnsupported: return "unsupported";
    case Code::kIo: return "io";
    case Code::kTooLarge: return "too_large";
    case Code::kInternal: break;
  }
  return "internal";
}

// Sets Python's error; the caller throws or returns.
void set_error(std::string_view sentence, const char* code) {
  const nb::object type = nb::module_::import_("kvik.errors").attr("Error");
  PyErr_SetObject(type.ptr(), type(text_of(sentence), code).ptr());
}

}  // namespace

void check_appended(AppendStatus status) {
  if (status == AppendStatus::kDone) return;
  if (status == AppendStatus::kNoMemory)
    set_error(kNoMemoryMessage, "no_memory");
  else
    set_error("the context is full; rewind() or reset() the session, or load the model with a larger context", "context_full");
  throw nb::python_error();
}

void bind_errors(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) { set_error(error.what(), name_of(error.code())); }
  });
  module.def("shut_down", shut_down, "Before Python ends: threads of the library that run no longer ask for the GIL.");
  module.attr("version") = text_of(kVersion);
}

}  // namespace kvik::python
