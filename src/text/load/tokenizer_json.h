#pragma once

#include <memory>

#include "text/load/json_fields.h"
#include "text/pipeline.h"

// Each reads one part of a tokenizer.json into `parts`; Sequences are flattened. Errors do not name the file.
namespace kvik::text {

void read_normalizer(const json::Object& object, Parts& parts);
void read_pre_tokenizer(const json::Object& object, Parts& parts);
void read_post_processor(const json::Object& object, Parts& parts);
void read_decoder(const json::Object& object, Parts& parts);
std::unique_ptr<Model> read_model(const json::Object& object);
AddedToken read_added_token(const json::Object& object);

// The whole file.
Parts read_parts(const json::Object& root);

// Limit for nested Sequences.
inline constexpr int kMaxNestedSequences = 16;

}  // namespace kvik::text
