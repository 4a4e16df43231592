#include <cstdint>

#include "api/c/boundary.h"

namespace kvik::c {
namespace {

static_assert(static_cast<int>(KVIK_FINISH_CANCELLED) == static_cast<int>(Finish::kCancelled));

// Marks a session as in use while callbacks may run; one that is freed there is deleted afterwards.
class Occupied {
 public:
  explicit Occupied(kvik_session* session) : session_(session) {
    if (session_ != nullptr) free_session(session_).busy = true;
  }
  ~Occupied() {
    if (session_ == nullptr) return;
    session_->busy = false;
    if (session_->doomed) delete session_;
  }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;

 private:
  kvik_session* session_;
};

// `begin` makes the generation once the options are read.
template <class Begin>
kvik_status generate(const kvik_generate_options* theirs, kvik_generation** target, const Begin& begin) {
  return guarded([&] {
    if (target != nullptr) *target = nullptr;
    kvik_generate_options ours = default_generate_options();
    read_struct(theirs, ours, "kvik_generate_options");
    bool enough = false;
    GenerateOptions options = generate_options(ours);
    const std::function<bool()> cancelled = options.cancelled;
    options.cancelled = [&] { return enough || (cancelled && cancelled()); };
    Generation generation = begin(options);
    auto result = std::make_unique<kvik_generation>();
    while (const std::optional<std::string_view> piece = generation.next()) {
      const size_t before = result->text.size();
      result->text += *piece;
      if (ours.piece == nullptr || piece->empty() || enough) continue;
      enough = ours.piece(ours.user, result->text.c_str() + before, piece->size());
    }
    result->ids = generation.ids();
    result->prompt_ids = generation.prompt_ids();
    result->finish = generation.finish();
    result->metrics = generation.metrics();
    if (target != nullptr) *target = result.release();
  });
}

}  // namespace

void write_generated(const GenerationFacts& facts, kvik_generated* generated) {
  write_struct(generated,
               {.size = 0,
                .text = facts.text.c_str(),
                .n_bytes = facts.text.size(),
                .ids = facts.ids.data(),
                .n_ids = facts.ids.size(),
                .prompt_ids = facts.prompt_ids.data(),
                .n_prompt_ids = facts.prompt_ids.size(),
                .finish = static_cast<kvik_finish>(facts.finish),
                .prefill_ms = facts.metrics.prefill_ms,
                .first_token_ms = facts.metrics.first_token_ms,
                .decode_ms = facts.metrics.decode_ms,
                .computed_prompt_tokens = facts.metrics.prompt_tokens,
                .reused_prompt_tokens = facts.metrics.reused_tokens,
                .decode_tokens = facts.metrics.decode_tokens,
                .decode_runs = facts.metrics.decode_runs,
                .proposed_tokens = facts.metrics.proposed_tokens,
                .accepted_tokens = facts.metrics.accepted_tokens,
                .mask_ms = facts.metrics.mask_ms},
               "generated");
}

}  // namespace kvik::c

using namespace kvik::c;

kvik_status kvik_generate(const kvik_model* model, const char* prompt, const kvik_generate_options* options, kvik_generation** generation) {
  return generate(options, generation, [&](const kvik::GenerateOptions& ours) {
    return given(model, "model").model.generate(std::string_view(&given(prompt, "prompt")), ours);
  });
}

kvik_status kvik_generate_ids(const kvik_model* model, kvik_session* session, const int32_t* ids, size_t n_ids,
                              const kvik_generate_options* options, kvik_generation** generation) {
  return guarded([&] {
    const Occupied occupied(session);
    return generate(options, generation, [&](const kvik::GenerateOptions& ours) {
      const kvik::Model& loaded = given(model, "model").model;
      const std::span<const int32_t> prompt = list(ids, n_ids, "ids");
      return session == nullptr ? loaded.generate(prompt, ours) : loaded.generate(session->session, prompt, ours);
    });
  });
}

void kvik_generation_free(kvik_generation* generation) { delete generation; }

kvik_status kvik_generation_get(const kvik_generation* generation, kvik_generated* generated) {
  return guarded([&] {
    const kvik_generation& whole = given(generation, "generation");
    const GenerationFacts facts{whole.text, whole.ids, whole.prompt_ids, whole.finish, whole.metrics};
    write_generated(facts, generated);
  });
}
