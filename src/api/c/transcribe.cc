#include "api/c/boundary.h"

using namespace kvik::c;

namespace {

template <class T>
const T& at(const std::vector<T>& list, size_t index, std::string_view what) {
  if (index >= list.size())
    throw kvik::Error(kvik::Code::kBadArgument, fmt::format("{} {} of {} was requested; the first is 0", what, index, list.size()));
  return list[index];
}

// Of a kvik::Segment or a kvik::TimedText.
template <class Part>
kvik_segment segment_of(const Part& part, float score, kvik_finish finish) {
  return {.size = 0,
          .start_s = part.start_s,
          .end_s = part.end_s,
          .text = part.text.c_str(),
          .n_bytes = part.text.size(),
          .ids = part.ids.data(),
          .n_ids = part.ids.size(),
          .score = score,
          .finish = finish};
}

}  // namespace

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
    const kvik::Segment& one = at(given(transcription, "transcription").whole.segments, index, "segment");
    write_struct(segment, segment_of(one, one.score, static_cast<kvik_finish>(one.finish)), "segment");
  });
}

kvik_status kvik_transcription_get_timed(const kvik_transcription* transcription, size_t index, kvik_segment* timed) {
  return guarded([&] {
    const kvik::TimedText& one = at(given(transcription, "transcription").whole.timed, index, "timed text");
    write_struct(timed, segment_of(one, 0, KVIK_FINISH_STOP), "timed");
  });
}
