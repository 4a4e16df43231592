#pragma once

#include <memory>
#include <nanobind/nanobind.h>

#include "call.h"
#include "kvik/engine.h"
#include "kvik/kvik.h"

// Option structs from keyword arguments. A sampling option is a line of sampling_fields(); any other option is one line in options.cc.
namespace kvik::python {

LoadOptions load_options(const nb::kwargs& given);
GenerateOptions generate_options(const nb::kwargs& given, const Call& call);
TranslateOptions translate_options(const nb::kwargs& given, const Call& call);
TranscribeOptions transcribe_options(const nb::kwargs& given, const Call& call);
EmbedOptions embed_options(const nb::kwargs& given, const Call& call);
ScoreOptions score_options(const nb::kwargs& given, const Call& call);
EngineOptions engine_options(const nb::kwargs& given);
Sampling sampling_options(const nb::kwargs& given);

}  // namespace kvik::python
