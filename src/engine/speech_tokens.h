#pragma once

#include "engine/generation_config.h"
#include "text/tokenizer.h"

namespace kvik::engine {

// Speech tokenizers name the tokens that tell a decoder what to do: <|de|>, <|transcribe|>, <|notimestamps|>. Fills in those that the
// config files do not list, and the start token if there is none: the one that the tokenizer itself puts before a text.
void complete_from_tokenizer(GenerationConfig& config, const text::Tokenizer& tokenizer);

// A token such as <|12.34|>, which is a time and no text.
bool is_time(std::string_view piece);

}  // namespace kvik::engine
