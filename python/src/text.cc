#include "kvik/text.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "call.h"
#include "convert.h"
#include "kvik/constraint.h"

namespace kvik::python {
namespace {

template <class Make>
auto compiling(const Make& make) {
  return [=](nb::handle notation) { return Call().run([&, text = utf8_of(notation)] { return make(text); }); };
}

}  // namespace

void bind_text(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def_static(
          "load", [](const std::string& path) { return Call().run([&] { return Tokenizer::load(path); }); }, nb::arg("path_or_name"))
      .def(
          "encode",
          [](const Tokenizer& self, nb::handle given, bool add_special, bool target, const std::string& language) {
            return Call().run([&, text = utf8_of(given)] { return self.encode(text, {add_special, target, language}); });
          },
          nb::arg("text"), nb::arg("add_special"), nb::arg("target"), nb::arg("language"))
      .def(
          "decode",
          [](const Tokenizer& self, nb::handle ids, bool skip_special) { return text_of(self.decode(token_ids(ids), skip_special)); },
          nb::arg("ids"), nb::arg("skip_special"))
      .def("end_id", &Tokenizer::end_id);
  nb::class_<Detokenizer>(module, "Detokenizer")
      .def(
          "__init__",
          [](Detokenizer* self, const Tokenizer& tokenizer, bool skip_special) { new (self) Detokenizer(tokenizer, skip_special); },
          nb::arg("tokenizer"), nb::arg("skip_special"))
      .def(
          "push", [](Detokenizer& self, TokenId id) { return text_of(self.push(id)); }, nb::arg("id"))
      .def("flush", [](Detokenizer& self) { return text_of(self.flush()); });
  nb::class_<ChatTemplate>(module, "ChatTemplate")
      .def_static(
          "load", [](const std::string& path) { return Call().run([&] { return ChatTemplate::load(path); }); }, nb::arg("path_or_name"))
      .def_static(
          "from_file", [](const std::filesystem::path& file, const std::string& path) { return ChatTemplate::from_file(file, path); },
          nb::arg("file"), nb::arg("path_or_name"))
      .def("empty", &ChatTemplate::empty)
      .def("fault", [](const ChatTemplate& self) { return text_of(self.fault()); })
      .def(
          "render",
          [](const ChatTemplate& self, const std::string& request) { return text_of(Call().run([&] { return self.render(request); })); },
          nb::arg("request_json"));
  nb::class_<Constraint>(module, "Constraint")
      .def_static("json_schema", compiling([](const std::string& schema) { return Constraint::json_schema(schema); }), nb::arg("schema"))
      .def_static("json_object", &Constraint::json_object)
      .def_static("regex", compiling([](const std::string& pattern) { return Constraint::regex(pattern); }), nb::arg("pattern"))
      .def_static("grammar", compiling([](const std::string& gbnf) { return Constraint::grammar(gbnf); }), nb::arg("gbnf"));
}

}  // namespace kvik::python
