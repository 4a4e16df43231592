#include "api/c/boundary.h"

using namespace kvik::c;

kvik_status kvik_embed(const kvik_model* model, const char* const* texts, size_t n_texts, const kvik_embed_options* options,
                       kvik_embeddings** embeddings) {
  return guarded([&] {
    given(embeddings, "embeddings") = nullptr;
    *embeddings = new kvik_embeddings{given(model, "model").model.embed(text_list(texts, n_texts), embed_options(options))};
  });
}

kvik_status kvik_embed_ids(const kvik_model* model, const int32_t* const* texts, const size_t* n_ids, size_t n_texts,
                           const kvik_embed_options* options, kvik_embeddings** embeddings) {
  return guarded([&] {
    given(embeddings, "embeddings") = nullptr;
    *embeddings = new kvik_embeddings{given(model, "model").model.embed(id_lists(texts, n_ids, n_texts), embed_options(options))};
  });
}

void kvik_embeddings_free(kvik_embeddings* embeddings) { delete embeddings; }

kvik_status kvik_embeddings_get(const kvik_embeddings* embeddings, size_t index, const float** values, size_t* n_values,
                                int32_t* n_tokens) {
  return guarded([&] {
    const std::vector<kvik::Embedding>& all = given(embeddings, "embeddings").list;
    if (index >= all.size())
      throw kvik::Error(kvik::Code::kBadArgument, fmt::format("embedding {} of {} was requested; the first is 0", index, all.size()));
    given(values, "values") = all[index].values.data();
    given(n_values, "n_values") = all[index].values.size();
    if (n_tokens != nullptr) *n_tokens = all[index].tokens;
  });
}
