#pragma once

#include "engine/generation_config.h"
#include "text/tokenizer.h"

namespace kvik::engine {

// Speech tokenizers have control tokens for the decoder: <|de|>, <|transcribe|>, <|notimestamps|>. Adds those that the config files do not
// list, and, if there is no start token, the token that the tokenizer puts before a text.
void complete_from_tokenizer(GenerationConfig& config, const text::Tokenizer& tokenizer);

// Whether it is a timestamp token, such as <|12.34|>.
bool is_time(std::string_view piece);

}  // namespace kvik::engine
