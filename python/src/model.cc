#include "model.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "convert.h"
#include "errors.h"
#include "generation.h"
#include "inputs.h"
#include "kvik/verify.h"
#include "options.h"

namespace kvik::python {
namespace {

using States = nb::ndarray<nb::numpy, const float, nb::ndim<2>>;

std::unique_ptr<GenerationHandle> generate(const ModelHandle& self, nb::handle prompt, const SessionHandle* session, nb::object progress,
                                           const nb::kwargs& options) {
  const std::vector<TokenId> ids = token_ids(prompt);
  return std::make_unique<GenerationHandle>(self, session == nullptr ? nullptr : session->shared(), ids, std::move(progress), options);
}

// All sessions are used until it returns, so that naming one twice is an error and not a race.
void step(const ModelHandle& self, const std::vector<const SessionHandle*>& handles, nb::handle tokens) {
  const std::vector<TokenId> ids = token_ids(tokens);
  check_appended(Call().run([&] {
    std::vector<std::unique_ptr<SessionUse>> uses;
    std::vector<Session*> sessions;
    for (const SessionHandle* const handle : handles) {
      uses.push_back(std::make_unique<SessionUse>(*handle->shared()));
      sessions.push_back(&handle->shared()->session);
    }
    return self.model().step(sessions, ids);
  }));
}

// [tokens, size] of each text, without a copy.
std::vector<States> hidden_states(const ModelHandle& self, nb::handle given) {
  const std::vector<std::vector<TokenId>> texts = token_id_lists(given);
  std::vector<States> arrays;
  for (HiddenStates& states : Call().run([&] { return self.model().hidden_states(texts); })) {
    const auto* const first = states.values.get();
    auto kept = std::make_unique<std::shared_ptr<const float[]>>(std::move(states.values));
    const nb::capsule owner(kept.release(), [](void* values) noexcept { delete static_cast<std::shared_ptr<const float[]>*>(values); });
    arrays.emplace_back(first, std::initializer_list<size_t>{static_cast<size_t>(states.tokens), static_cast<size_t>(states.size)}, owner);
  }
  return arrays;
}

void bind_calls(nb::class_<ModelHandle>& type) {
  type.def("generate", generate, nb::arg("ids"), nb::arg("session").none(), nb::arg("progress").none(), nb::arg("options"))
      .def("step", step, nb::arg("sessions"), nb::arg("tokens"))
      .def(
          "score",
          [](const ModelHandle& self, nb::handle given, nb::object progress, const nb::kwargs& options) {
            const std::vector<TokenId> ids = token_ids(given);
            const Call call(std::move(progress));
            return call.run([&, score = score_options(options, call)] { return self.model().score(ids, score); });
          },
          nb::arg("ids"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "embed",
          [](const ModelHandle& self, nb::handle given, nb::object progress, const nb::kwargs& options) {
            const Texts texts = texts_of(given);
            const Call call(std::move(progress));
            return matrix_of(call.run([&, embed = embed_options(options, call)] {
              return std::visit([&](const auto& list) { return self.model().embed(list, embed); }, texts);
            }));
          },
          nb::arg("texts"), nb::arg("progress").none(), nb::arg("options"))
      .def("hidden_states", hidden_states, nb::arg("texts"));
}

Transcription transcribe(const Model& model, const Recording& recording, const TranscribeOptions& options) {
  if (const Samples* const samples = std::get_if<Samples>(&recording)) return model.transcribe(samples->values, samples->rate, options);
  if (const auto* const file = std::get_if<std::filesystem::path>(&recording)) return model.transcribe(*file, options);
  return model.transcribe(std::get<std::vector<Features>>(recording), options);
}

void bind_sources(nb::class_<ModelHandle>& type) {
  type.def(
          "translate",
          [](const ModelHandle& self, nb::handle given, nb::object progress, const nb::kwargs& options) {
            const Sources sources = sources_of(given);
            const Call call(std::move(progress));
            return call.run([&, translate = translate_options(options, call)] {
              return std::visit([&](const auto& list) { return self.model().translate(list, translate); }, sources);
            });
          },
          nb::arg("sources"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "transcribe",
          [](const ModelHandle& self, nb::handle given, int sample_rate, nb::object progress, const nb::kwargs& options) {
            const Recording recording = recording_of(given, sample_rate);
            const Call call(std::move(progress));
            return call.run(
                [&, given_options = transcribe_options(options, call)] { return transcribe(self.model(), recording, given_options); });
          },
          nb::arg("audio"), nb::arg("sample_rate"), nb::arg("progress").none(), nb::arg("options"));
}

template <class Read>
auto reading(const Read& read) {
  return [=](const ModelHandle& self) { return read(self.model()); };
}

void bind_facts(nb::class_<ModelHandle>& type) {
  type.def("can_embed", reading([](const Model& model) { return model.can_embed(); }))
      .def("can_generate", reading([](const Model& model) { return model.can_generate(); }))
      .def("max_embedding_tokens", reading([](const Model& model) { return model.max_embedding_tokens(); }))
      .def("embedding_prompts", reading([](const Model& model) { return model.embedding_prompts(); }))
      .def("embedding_size",
           [](const ModelHandle& self, const nb::kwargs& options) { return self.model().embedding_size(embed_options(options, Call())); })
      .def("feature_rank", reading([](const Model& model) { return model.feature_rank(); }))
      .def("has_tokenizer", reading([](const Model& model) { return model.has_tokenizer(); }))
      .def("has_chat_template", reading([](const Model& model) { return model.has_chat_template(); }))
      .def("has_encoder", reading([](const Model& model) { return model.has_encoder(); }))
      .def("vocab_size", reading([](const Model& model) { return model.vocab_size(); }))
      .def("max_positions", reading([](const Model& model) { return model.max_positions(); }))
      .def("backend", reading([](const Model& model) { return model.backend(); }))
      .def("device", reading([](const Model& model) { return model.device(); }))
      .def("weights_bytes", reading([](const Model& model) { return model.weights_bytes(); }))
      .def("cache_bytes_per_token", reading([](const Model& model) { return model.cache_bytes_per_token(); }))
      .def("cache_use", reading([](const Model& model) { return model.cache_use(); }))
      .def("load_ms", reading([](const Model& model) { return model.load_ms(); }))
      .def("eos_ids", reading([](const Model& model) { return model.eos_ids(); }))
      .def("start_ids", reading([](const Model& model) { return model.start_ids(); }));
}

void bind_model_text(nb::class_<ModelHandle>& type) {
  type.def(
          "tokenize",
          [](const ModelHandle& self, nb::handle given, bool add_special) {
            return Call().run([&, text = utf8_of(given)] { return self.model().tokenize(text, add_special); });
          },
          nb::arg("text"), nb::arg("add_special"))
      .def(
          "detokenize",
          [](const ModelHandle& self, nb::handle ids, bool skip_special) {
            return text_of(self.model().detokenize(token_ids(ids), skip_special));
          },
          nb::arg("ids"), nb::arg("skip_special"))
      .def(
          "apply_chat_template",
          [](const ModelHandle& self, const std::string& messages, bool add_generation_prompt) {
            return text_of(Call().run([&] { return self.model().apply_chat_template(messages, add_generation_prompt); }));
          },
          nb::arg("messages_json"), nb::arg("add_generation_prompt"));
}

Verification verify_model(const ModelHandle& self, nb::handle given, bool compare, double tolerance, nb::object on_law) {
  VerifyOptions options;
  if (!given.is_none()) options.ids = token_ids(given);
  const Call call(std::move(on_law));
  int n_laws = 0;
  if (const auto progress = call.progress()) options.on_law = [&n_laws, progress](const Law&) { progress(++n_laws, 0); };
  options.compare = compare;
  options.tolerance = tolerance;
  options.cancelled = call.cancelled();
  return call.run([&] { return verify(self.model(), options); });
}

}  // namespace

void bind_model(nb::module_& module) {
  auto type = nb::class_<ModelHandle>(module, "Model");
  type.def(
          "__init__",
          [](ModelHandle* self, const std::string& path_or_name, const nb::kwargs& options) {
            new (self) ModelHandle(Call().run([&, load = load_options(options)] { return Model::load(path_or_name, load); }));
          },
          nb::arg("path_or_name"), nb::arg("options"))
      .def("session",
           [](const ModelHandle& self) {
             return SessionHandle(Call().run([&] { return self.model().session(); }), self.model().vocab_size());
           })
      .def(
          "load_session",
          [](const ModelHandle& self, const std::filesystem::path& file) {
            return SessionHandle(Call().run([&] { return self.model().load_session(file); }), self.model().vocab_size());
          },
          nb::arg("file"))
      .def(
          "load_prefix",
          [](const ModelHandle& self, const std::filesystem::path& file) {
            return Call().run([&] { return self.model().load_prefix(file); });
          },
          nb::arg("file"))
      .def("verify", verify_model, nb::arg("ids").none(), nb::arg("compare"), nb::arg("tolerance"), nb::arg("progress").none());
  bind_calls(type);
  bind_sources(type);
  bind_facts(type);
  bind_model_text(type);
}

}  // namespace kvik::python
