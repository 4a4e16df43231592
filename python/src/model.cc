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
#include "kvik/verify.h"
#include "options.h"

namespace kvik::python {
namespace {

using Samples = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using States = nb::ndarray<nb::numpy, const float, nb::ndim<2>>;
using Matrix = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

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

Features features_of(const FloatArray& array) {
  Features features;
  for (size_t axis = 0; axis < array.ndim(); ++axis) features.shape.push_back(static_cast<int64_t>(array.shape(axis)));
  features.values.assign(array.data(), array.data() + array.size());
  return features;
}

std::vector<Features> features_of(const std::vector<FloatArray>& arrays) {
  std::vector<Features> all;
  for (const FloatArray& array : arrays) all.push_back(features_of(array));
  return all;
}

// One matrix: [texts, dimensions].
Matrix matrix_of(const std::vector<Embedding>& embeddings) {
  auto values = std::make_unique<std::vector<float>>();
  const size_t width = embeddings.empty() ? 0 : embeddings.front().values.size();
  values->reserve(width * embeddings.size());
  for (const Embedding& embedding : embeddings) values->insert(values->end(), embedding.values.begin(), embedding.values.end());
  float* const first = values->data();
  const nb::capsule owner(values.release(), [](void* kept) noexcept { delete static_cast<std::vector<float>*>(kept); });
  return {first, {embeddings.size(), width}, owner};
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
          [](const ModelHandle& self, const std::vector<std::string>& texts, nb::object progress, const nb::kwargs& options) {
            const Call call(std::move(progress));
            return matrix_of(call.run([&, embed = embed_options(options, call)] { return self.model().embed(texts, embed); }));
          },
          nb::arg("texts"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "embed_ids",
          [](const ModelHandle& self, nb::handle given, nb::object progress, const nb::kwargs& options) {
            const std::vector<std::vector<TokenId>> texts = token_id_lists(given);
            const Call call(std::move(progress));
            return matrix_of(call.run([&, embed = embed_options(options, call)] { return self.model().embed(texts, embed); }));
          },
          nb::arg("texts"), nb::arg("progress").none(), nb::arg("options"))
      .def("hidden_states", hidden_states, nb::arg("texts"));
}

void bind_sources(nb::class_<ModelHandle>& type) {
  type.def(
          "translate",
          [](const ModelHandle& self, const std::vector<std::string>& texts, nb::object progress, const nb::kwargs& options) {
            const Call call(std::move(progress));
            return call.run([&, translate = translate_options(options, call)] { return self.model().translate(texts, translate); });
          },
          nb::arg("texts"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "translate_ids",
          [](const ModelHandle& self, nb::handle given, nb::object progress, const nb::kwargs& options) {
            const std::vector<std::vector<TokenId>> sources = token_id_lists(given);
            const Call call(std::move(progress));
            return call.run([&, translate = translate_options(options, call)] { return self.model().translate(sources, translate); });
          },
          nb::arg("sources"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "translate_features",
          [](const ModelHandle& self, const std::vector<FloatArray>& arrays, nb::object progress, const nb::kwargs& options) {
            const std::vector<Features> sources = features_of(arrays);
            const Call call(std::move(progress));
            return call.run([&, translate = translate_options(options, call)] { return self.model().translate(sources, translate); });
          },
          nb::arg("sources"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "transcribe",
          [](const ModelHandle& self, const Samples& samples, int sample_rate, nb::object progress, const nb::kwargs& options) {
            const Call call(std::move(progress));
            return call.run([&, transcribe = transcribe_options(options, call)] {
              return self.model().transcribe(std::span(samples.data(), samples.size()), sample_rate, transcribe);
            });
          },
          nb::arg("samples"), nb::arg("sample_rate"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "transcribe_file",
          [](const ModelHandle& self, const std::filesystem::path& file, nb::object progress, const nb::kwargs& options) {
            const Call call(std::move(progress));
            return call.run([&, transcribe = transcribe_options(options, call)] { return self.model().transcribe(file, transcribe); });
          },
          nb::arg("file"), nb::arg("progress").none(), nb::arg("options"))
      .def(
          "transcribe_features",
          [](const ModelHandle& self, const std::vector<FloatArray>& arrays, nb::object progress, const nb::kwargs& options) {
            const std::vector<Features> windows = features_of(arrays);
            const Call call(std::move(progress));
            return call.run([&, transcribe = transcribe_options(options, call)] { return self.model().transcribe(windows, transcribe); });
          },
          nb::arg("windows"), nb::arg("progress").none(), nb::arg("options"));
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
          [](const ModelHandle& self, const std::string& text, bool add_special) {
            return Call().run([&] { return self.model().tokenize(text, add_special); });
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
