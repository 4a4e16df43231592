#include <nanobind/stl/filesystem.h>

#include "bindings.h"
#include "convert.h"
#include "errors.h"
#include "model.h"
#include "options.h"

namespace kvik::python {
namespace {

void append(const SessionHandle& self, nb::handle given, nb::object progress) {
  const std::vector<TokenId> ids = token_ids(given);
  const Call call(std::move(progress));
  const AppendOptions options{call.progress(), call.cancelled()};
  check_appended(call.run([&] {
    const SessionUse use(*self.shared());
    return self.shared()->session.append(ids, options);
  }));
}

void append_tree(const SessionHandle& self, nb::handle tokens, nb::handle parents) {
  const std::vector<TokenId> ids = token_ids(tokens);
  const std::vector<int> after = token_ids(parents);  // node numbers are 32-bit numbers too
  check_appended(self.compute([&](Session& session) { return session.append_tree(ids, after).status(); }));
}

FloatVector logits(const SessionHandle& self) {
  const auto n = static_cast<size_t>(self.shared()->vocab_size);
  return array_of(self.compute([](Session& session) { return session.shared_logits(); }), n);
}

FloatVector tree_logits(const SessionHandle& self, int node) {
  const auto n = static_cast<size_t>(self.shared()->vocab_size);
  return array_of(self.use([=](Session& session) { return session.shared_logits(node); }), n);
}

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<SessionHandle>(module, "Session")
      .def("append", append, nb::arg("ids"), nb::arg("progress") = nb::none())
      .def("append_tree", append_tree, nb::arg("tokens"), nb::arg("parents"))
      .def("tree_logits", tree_logits, nb::arg("node"))
      .def(
          "keep", [](const SessionHandle& self, int node) { self.compute([=](Session& session) { session.keep(node); }); }, nb::arg("node"))
      .def("logits", logits)
      .def("sample",
           [](const SessionHandle& self, const nb::kwargs& options) {
             const Sampling sampling = sampling_options(options);
             return self.compute([&](Session& session) { return session.sample(sampling); });
           })
      .def("fork",
           [](const SessionHandle& self) {
             return SessionHandle(self.compute([](Session& session) { return session.fork(); }), self.shared()->vocab_size);
           })
      .def(
          "rewind", [](const SessionHandle& self, int length) { self.compute([=](Session& session) { session.rewind(length); }); },
          nb::arg("length"))
      .def(
          "save",
          [](const SessionHandle& self, const std::filesystem::path& file) { self.compute([&](Session& session) { session.save(file); }); },
          nb::arg("file"))
      .def("length", [](const SessionHandle& self) { return self.use([](Session& session) { return session.length(); }); })
      .def("capacity", [](const SessionHandle& self) { return self.use([](Session& session) { return session.capacity(); }); })
      .def("tokens",
           [](const SessionHandle& self) {
             return array_of(
                 self.use([](Session& session) { return std::vector<TokenId>(session.tokens().begin(), session.tokens().end()); }));
           })
      .def("metrics", [](const SessionHandle& self) { return self.use([](Session& session) { return session.metrics(); }); });
}

}  // namespace kvik::python
