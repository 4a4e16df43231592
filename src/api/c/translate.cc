#include "api/c/boundary.h"

using namespace kvik::c;

kvik_status kvik_translate(const kvik_model* model, const char* const* texts, size_t n_texts, const kvik_translate_options* options,
                           kvik_translations** translations) {
  return guarded([&] {
    given(translations, "translations") = nullptr;
    *translations = new kvik_translations{given(model, "model").model.translate(text_list(texts, n_texts), translate_options(options))};
  });
}

kvik_status kvik_translate_ids(const kvik_model* model, const int32_t* const* sources, const size_t* n_ids, size_t n_sources,
                               const kvik_translate_options* options, kvik_translations** translations) {
  return guarded([&] {
    given(translations, "translations") = nullptr;
    const std::vector<std::vector<kvik::TokenId>> copies = id_lists(sources, n_ids, n_sources);
    *translations = new kvik_translations{given(model, "model").model.translate(copies, translate_options(options))};
  });
}

void kvik_translations_free(kvik_translations* translations) { delete translations; }

kvik_status kvik_translations_get(const kvik_translations* translations, size_t index, size_t hypothesis, kvik_translated* translated) {
  return guarded([&] {
    const std::vector<kvik::Translation>& all = given(translations, "translations").list;
    if (index >= all.size())
      throw kvik::Error(kvik::Code::kBadArgument, fmt::format("translation {} of {} was requested; the first is 0", index, all.size()));
    const kvik::Translation& whole = all[index];
    const size_t n_hypotheses = std::max<size_t>(1, whole.hypotheses.size());
    if (hypothesis >= n_hypotheses)
      throw kvik::Error(kvik::Code::kBadArgument,
                        fmt::format("hypothesis {} of {} was requested; the first is 0", hypothesis, n_hypotheses));
    const kvik::Hypothesis& one = hypothesis == 0 ? whole : whole.hypotheses[hypothesis];
    write_struct(translated,
                 {.size = 0,
                  .text = one.text.c_str(),
                  .n_bytes = one.text.size(),
                  .ids = one.ids.data(),
                  .n_ids = one.ids.size(),
                  .score = one.score,
                  .finish = static_cast<kvik_finish>(one.finish),
                  .source_ids = whole.source_ids.data(),
                  .n_source_ids = whole.source_ids.size(),
                  .n_hypotheses = n_hypotheses},
                 "translated");
  });
}
