#include "api/c/boundary.h"

using namespace kvik::c;

kvik_status kvik_model_load(const char* path_or_name, const kvik_load_options* options, kvik_model** model) {
  return guarded([&] {
    given(model, "model") = nullptr;
    kvik::Model loaded = kvik::Model::load(&given(path_or_name, "path_or_name"), load_options(options));
    std::string backend = loaded.backend(), device = loaded.device();
    std::vector<kvik::TokenId> eos_ids = loaded.eos_ids();
    *model = new kvik_model{std::move(loaded), std::move(backend), std::move(device), std::move(eos_ids)};
  });
}

void kvik_model_free(kvik_model* model) { delete model; }

kvik_status kvik_model_get_info(const kvik_model* model, kvik_model_info* info) {
  return guarded([&] {
    const kvik::Model& loaded = given(model, "model").model;
    write_struct(info,
                 {.size = 0,
                  .vocab_size = loaded.vocab_size(),
                  .max_positions = loaded.max_positions(),
                  .weights_bytes = loaded.weights_bytes(),
                  .load_ms = loaded.load_ms(),
                  .backend = model->backend.c_str(),
                  .device = model->device.c_str(),
                  .has_tokenizer = loaded.has_tokenizer(),
                  .has_chat_template = loaded.has_chat_template(),
                  .eos_ids = model->eos_ids.data(),
                  .n_eos_ids = model->eos_ids.size()},
                 "info");
  });
}

kvik_status kvik_tokenize(const kvik_model* model, const char* text, size_t n_bytes, bool add_special, int32_t* ids, size_t capacity,
                          size_t* n_ids) {
  return guarded([&] {
    const std::span<const char> bytes = list(text, n_bytes, "text");
    const std::vector<kvik::TokenId> found = given(model, "model").model.tokenize({bytes.data(), bytes.size()}, add_special);
    return hand_over(found.data(), found.size(), 0, ids, capacity, n_ids);
  });
}

kvik_status kvik_detokenize(const kvik_model* model, const int32_t* ids, size_t n_ids, bool skip_special, char* text, size_t capacity,
                            size_t* n_bytes) {
  return guarded([&] {
    const std::string found = given(model, "model").model.detokenize(list(ids, n_ids, "ids"), skip_special);
    return hand_over(found.c_str(), found.size(), 1, text, capacity, n_bytes);
  });
}

kvik_status kvik_apply_chat_template(const kvik_model* model, const char* messages_json, bool add_generation_prompt, char* text,
                                     size_t capacity, size_t* n_bytes) {
  return guarded([&] {
    const std::string found =
        given(model, "model").model.apply_chat_template(&given(messages_json, "messages_json"), add_generation_prompt);
    return hand_over(found.c_str(), found.size(), 1, text, capacity, n_bytes);
  });
}
