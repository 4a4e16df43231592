#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "convert.h"
#include "kvik/engine.h"
#include "kvik/kvik.h"
#include "kvik/verify.h"

// What calls return. The classes are plain data; python/kvik/__init__.py exports them.
namespace kvik::python {
namespace {

template <class T>
nb::str repr_of(const char* type, const T& value) {
  return nb::str("kvik.{}(text={!r}, finish={!r})").format(type, text_of(value.text), text_of(finish_name(value.finish)));
}

void bind_hypotheses(nb::module_& module) {
  nb::class_<Hypothesis>(module, "Hypothesis", "One result of a decoder for a source.")
      .def_ro("ids", &Hypothesis::ids, "Without the start token, including the end token that stopped it.")
      .def_prop_ro(
          "text", [](const Hypothesis& self) { return text_of(self.text); }, "Empty if the model has no tokenizer.")
      .def_ro("score", &Hypothesis::score, "Sum of log-probabilities / length ** length_penalty.")
      .def_prop_ro(
          "finish", [](const Hypothesis& self) { return text_of(finish_name(self.finish)); }, "'stop', 'length' or 'cancelled'.")
      .def("__repr__", [](const Hypothesis& self) { return repr_of("Hypothesis", self); });
  nb::class_<Translation, Hypothesis>(module, "Translation", "The best hypothesis for one source.")
      .def_ro("source_ids", &Translation::source_ids)
      .def_ro("hypotheses", &Translation::hypotheses, "num_return_sequences of them, best first.")
      .def("__repr__", [](const Translation& self) { return repr_of("Translation", self); });
  nb::class_<TimedText>(module, "TimedText", "The text between two timestamps of a recording.")
      .def_ro("start_s", &TimedText::start_s)
      .def_ro("end_s", &TimedText::end_s)
      .def_prop_ro("text", [](const TimedText& self) { return text_of(self.text); })
      .def_ro("ids", &TimedText::ids)
      .def("__repr__", [](const TimedText& self) {
        return nb::str("kvik.TimedText({!r} to {!r} s: {!r})").format(self.start_s, self.end_s, text_of(self.text));
      });
  nb::class_<Segment, Hypothesis>(module, "Segment", "One window of a recording.")
      .def_ro("start_s", &Segment::start_s)
      .def_ro("end_s", &Segment::end_s)
      .def_ro("timed", &Segment::timed)
      .def_ro("hypotheses", &Segment::hypotheses)
      .def("__repr__", [](const Segment& self) { return repr_of("Segment", self); });
  nb::class_<Transcription>(module, "Transcription", "The text of a recording.")
      .def_prop_ro("text", [](const Transcription& self) { return text_of(self.text); })
      .def_ro("ids", &Transcription::ids)
      .def_ro("start_ids", &Transcription::start_ids, "The decoder's start tokens: start, language, task.")
      .def_ro("language", &Transcription::language, "Empty if the model has no languages.")
      .def_prop_ro("finish", [](const Transcription& self) { return text_of(finish_name(self.finish)); })
      .def_ro("segments", &Transcription::segments)
      .def_ro("timed", &Transcription::timed, "With timestamps: the text segments with their times.")
      .def("__repr__", [](const Transcription& self) { return repr_of("Transcription", self); });
}

void bind_numbers(nb::module_& module) {
  nb::class_<Score>(module, "Score", "Log-probability of every token given those before it.")
      .def_prop_ro(
          "logprobs",
          [](const Score& self) {
            return nb::ndarray<nb::numpy, const double, nb::ndim<1>>(self.logprobs.data(), {self.logprobs.size()}, nb::find(self));
          },
          "Natural logarithms, of every token but the first of each window.")
      .def_ro("sum_logprob", &Score::sum_logprob)
      .def_ro("window", &Score::window)
      .def_prop_ro("perplexity", &Score::perplexity)
      .def_prop_ro("finish", [](const Score& self) { return text_of(finish_name(self.finish)); })
      .def("__repr__", [](const Score& self) {
        return nb::str("kvik.Score({} tokens, sum_logprob={:.4f}, perplexity={:.4f})")
            .format(self.logprobs.size(), self.sum_logprob, self.perplexity());
      });
  nb::class_<TokenLogprob>(module, "TokenLogprob", "A token and its log-probability.")
      .def_ro("id", &TokenLogprob::id)
      .def_ro("logprob", &TokenLogprob::logprob)
      .def("__repr__", [](const TokenLogprob& self) { return nb::str("kvik.TokenLogprob({}, {:.4f})").format(self.id, self.logprob); });
  nb::class_<GeneratedToken, TokenLogprob>(module, "GeneratedToken", "A generated token, and the most likely alternatives.")
      .def_ro("top", &GeneratedToken::top);
  nb::class_<Metrics>(module, "Metrics", "Times and counts of a generation or a session.")
      .def_ro("prefill_ms", &Metrics::prefill_ms)
      .def_ro("first_token_ms", &Metrics::first_token_ms)
      .def_ro("decode_ms", &Metrics::decode_ms)
      .def_ro("prompt_tokens", &Metrics::prompt_tokens)
      .def_ro("reused_tokens", &Metrics::reused_tokens)
      .def_ro("decode_tokens", &Metrics::decode_tokens)
      .def_ro("generated_tokens", &Metrics::generated_tokens)
      .def_ro("decode_runs", &Metrics::decode_runs)
      .def_ro("proposed_tokens", &Metrics::proposed_tokens)
      .def_ro("accepted_tokens", &Metrics::accepted_tokens)
      .def_ro("cache_bytes", &Metrics::cache_bytes)
      .def_ro("mask_ms", &Metrics::mask_ms)
      .def_prop_ro("prefill_tokens_per_s", &Metrics::prefill_tokens_per_s)
      .def_prop_ro("decode_tokens_per_s", &Metrics::decode_tokens_per_s)
      .def("__repr__", [](const Metrics& self) {
        return nb::str("kvik.Metrics({} prompt tokens in {:.1f} ms, {} new tokens, {:.1f} per second)")
            .format(self.prompt_tokens, self.prefill_ms, self.generated_tokens, self.decode_tokens_per_s());
      });
  nb::class_<CacheUse>(module, "CacheUse", "Memory use of a model's KV cache, and how much computation it saved.")
      .def_ro("used_bytes", &CacheUse::used_bytes)
      .def_ro("prefix_bytes", &CacheUse::prefix_bytes)
      .def_ro("allocated_bytes", &CacheUse::allocated_bytes)
      .def_ro("limit_bytes", &CacheUse::limit_bytes)
      .def_ro("reused_positions", &CacheUse::reused_positions)
      .def_ro("evicted_positions", &CacheUse::evicted_positions)
      .def("__repr__", [](const CacheUse& self) {
        return nb::str("kvik.CacheUse({:.1f} of {:.1f} MB, {:.1f} MB of it cached prefixes, {} positions reused)")
            .format(static_cast<double>(self.used_bytes) / 1e6, static_cast<double>(self.allocated_bytes) / 1e6,
                    static_cast<double>(self.prefix_bytes) / 1e6, self.reused_positions);
      });
}

void bind_laws(nb::module_& module) {
  nb::class_<Law>(module, "Law", "An equality between two ways of computing the same logits or ids; both ways were run.")
      .def_ro("name", &Law::name)
      .def_ro("cases", &Law::cases)
      .def_ro("holds", &Law::holds)
      .def_ro("exact", &Law::exact, "Equal bits in every case.")
      .def_ro("max_difference", &Law::max_difference)
      .def_ro("relative_difference", &Law::relative_difference)
      .def_ro("information", &Law::information)
      .def_ro("detail", &Law::detail, "The first case that fails.")
      .def("__repr__", [](const Law& self) {
        return nb::str("kvik.Law({!r}: {} in {} cases{})")
            .format(text_of(self.name), self.holds ? "holds" : "FAILS", self.cases, self.exact ? ", equal bits" : "");
      });
  nb::class_<Verification>(module, "Verification", "The laws that were tested on a model.")
      .def_ro("laws", &Verification::laws)
      .def_ro("tolerance", &Verification::tolerance)
      .def_prop_ro("holds", &Verification::holds, "Every law holds.")
      .def_prop_ro("finish", [](const Verification& self) { return text_of(finish_name(self.finish)); })
      .def("__repr__",
           [](const Verification& self) { return nb::str("kvik.Verification(holds={}, {} laws)").format(self.holds(), self.laws.size()); });
}

}  // namespace

void bind_results(nb::module_& module) {
  bind_hypotheses(module);
  bind_numbers(module);
  bind_laws(module);
}

}  // namespace kvik::python
