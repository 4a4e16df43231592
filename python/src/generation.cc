#include "generation.h"

#include "bindings.h"
#include "convert.h"
#include "options.h"

namespace kvik::python {
namespace {

Generation begin(const ModelHandle& model, const std::shared_ptr<SharedSession>& session, std::span<const TokenId> prompt,
                 const GenerateOptions& options) {
  if (session == nullptr) return model.model().generate(prompt, options);
  const SessionUse use(*session);
  return model.model().generate(session->session, prompt, options);
}

}  // namespace

GenerationHandle::GenerationHandle(const ModelHandle& model, std::shared_ptr<SharedSession> session, std::span<const TokenId> prompt,
                                   nb::object progress, const nb::kwargs& given)
    : call_(std::move(progress)),
      session_(std::move(session)),
      generation_(call_.run([&, options = generate_options(given, call_)] { return begin(model, session_, prompt, options); })) {}

GenerationHandle::~GenerationHandle() {
  const ReleasedGil released;
  generation_.reset();
  session_.reset();
}

// Empty pieces are of no use to a reader: a character or a stop text is incomplete.
std::optional<std::string_view> GenerationHandle::next() {
  if (in_use_.exchange(true)) throw Error(Code::kBadArgument, "the generation is read by another thread; one thread reads it");
  const auto read = [&]() -> std::optional<std::string_view> {
    for (;;) {
      std::optional<SessionUse> use;
      if (session_) use.emplace(*session_);
      const std::optional<std::string_view> piece = generation_->next();
      if (!piece || !piece->empty()) return piece;
    }
  };
  std::optional<std::string_view> piece;
  try {
    const ReleasedGil released;
    piece = read();
  } catch (...) {
    in_use_ = false;
    throw;
  }
  in_use_ = false;
  call_.raise();
  return piece;
}

void bind_generation(nb::module_& module) {
  nb::class_<GenerationHandle>(module, "Generation")
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __iter__(self) -> Generation"))
      .def("__next__",
           [](GenerationHandle& self) {
             const std::optional<std::string_view> piece = self.next();
             if (!piece) throw nb::stop_iteration();
             return text_of(*piece);
           })
      .def("prompt_ids", [](const GenerationHandle& self) { return array_of(self.generation().prompt_ids()); })
      .def("ids", [](const GenerationHandle& self) { return array_of(self.generation().ids()); })
      .def("finish", [](const GenerationHandle& self) { return text_of(finish_name(self.generation().finish())); })
      .def("metrics", [](const GenerationHandle& self) { return self.generation().metrics(); });
}

}  // namespace kvik::python
