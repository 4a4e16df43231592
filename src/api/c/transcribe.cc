#include "api/c/boundary.h"

using namespace kvik::c;

kvik_status kvik_transcribe(const kvik_model* model, const float* samples, size_t n_samples, int32_t sample_rate,
                            const kvik_transcribe_options* options, kvik_transcription** transcription) {
  return guarded([&] {
    given(transcription, "transcription") = nullptr;
    const std::span<const float> given_samples = list(samples, n_samples, "samples");
    *transcription =
        new kvik_transcription{given(model, "model").model.transcribe(given_samples, sample_rate, transcribe_options(options))};
  });
}

kvik_status kvik_transcribe_file(const kvik_model* model, const char* wave_file, const kvik_transcribe_options* options,
                                 kvik_transcription** transcription) {
  return guarded([&] {
    given(transcription, "transcription") = nullptr;
    const std::filesystem::path file = &given(wave_file, "wave_file");
    *transcription = new kvik_transcription{given(model, "model").model.transcribe(file, transcribe_options(options))};
  });
}

void kvik_transcription_free(kvik_transcription* transcription) { delete transcription; }

kvik_status kvik_transcription_get(const kvik_transcription* transcription, kvik_transcribed* transcribed) {
  return guarded([&] {
    const kvik::Transcription& whole = given(transcription, "transcription").whole;
    write_struct(transcribed,
                 {.size = 0,
                  .text = whole.text.c_str(),
                  .n_bytes = whole.text.size(),
                  .ids = whole.ids.data(),
                  .n_ids = whole.ids.size(),
                  .language = whole.language.c_str(),
                  .finish = static_cast<kvik_finish>(whole.finish),
                  .n_segments = whole.segments.size(),
                  .n_timed = whole.timed.size()},
                 "transcribed");
  });
}

kvik_status kvik_transcription_get_segment(const kvik_transcription* transcription, size_t index, kvik_segment* segment) {
  return guarded([&] {
    const std::vector<kvik::Segment>& segments = given(transcription, "transcription").whole.segments;
    if (index >= segments.size())
      throw kvik::Error(kvik::Code::kBadArgument, fmt::format("segment {} of {} was requested; the first is 0", index, segments.size()));
    const kvik::Segment& one = segments[index];
    write_struct(segment,
                 {.size = 0,
                  .start_s = one.start_s,
                  .end_s = one.end_s,
                  .text = one.text.c_str(),
                  .n_bytes = one.text.size(),
                  .ids = one.ids.data(),
                  .n_ids = one.ids.size(),
                  .score = one.score,
                  .finish = static_cast<kvik_finish>(one.finish)},
                 "segment");
  });
}

kvik_status kvik_transcription_get_timed(const kvik_transcription* transcription, size_t index, kvik_segment* timed) {
  return guarded([&] {
    const std::vector<kvik::TimedText>& texts = given(transcription, "transcription").whole.timed;
    if (index >= texts.size())
      throw kvik::Error(kvik::Code::kBadArgument, fmt::format("timed text {} of {} was requested; the first is 0", index, texts.size()));
    const kvik::TimedText& one = texts[index];
    write_struct(timed,
                 {.size = 0,
                  .start_s = one.start_s,
                  .end_s = one.end_s,
                  .text = one.text.c_str(),
                  .n_bytes = one.text.size(),
                  .ids = one.ids.data(),
                  .n_ids = one.ids.size(),
                  .score = 0,
                  .finish = KVIK_FINISH_STOP},
                 "timed");
  });
}
