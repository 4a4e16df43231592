#pragma once

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <type_traits>
#include <utility>

#include "kvik/engine.h"
#include "kvik/kvik_c.h"

// Shared by all functions of kvik_c.h: handles, argument checks, and the barrier that turns exceptions into status codes.
struct kvik_model {
  kvik::Model model;
  std::string backend, device;
  std::vector<kvik::TokenId> eos_ids;
};

struct kvik_constraint {
  kvik::Constraint constraint;
};

struct kvik_session {
  kvik::Session session;
  kvik::TreeLogits tree = {};  // of the last append_tree
  bool busy = false;           // inside a call that is running a callback
  bool doomed = false;         // was freed in that callback; deleted after the call
};

struct kvik_generation {
  std::string text;
  std::vector<kvik::TokenId> ids, prompt_ids;
  kvik::Finish finish;
  kvik::Metrics metrics;
};

struct kvik_embeddings {
  std::vector<kvik::Embedding> list;
};

struct kvik_translations {
  std::vector<kvik::Translation> list;
};

struct kvik_transcription {
  kvik::Transcription whole;
};

struct kvik_engine {
  kvik::Engine engine;
};

struct kvik_stream {
  kvik::Stream stream;
  std::string text = {};                // text read so far
  std::vector<kvik::TokenId> ids = {};  // returned by the last kvik_stream_get
};

struct kvik_task {
  std::variant<kvik::TranslationTask, kvik::TranscriptionTask, kvik::EmbeddingTask> task;
};

namespace kvik::c {

// Keeps a message for kvik_last_error() of this thread.
kvik_status fail(kvik_status status, const char* message) noexcept;
// The same for the exception that is being handled.
kvik_status fail_with_current_exception() noexcept;

// Runs the body of a call. It returns a status, or nothing for KVIK_STATUS_OK.
template <class Body>
kvik_status guarded(Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return KVIK_STATUS_OK;
    } else {
      return body();
    }
  } catch (...) { return fail_with_current_exception(); }
}

// Dereferences a pointer; throws Error(kBadArgument) if it is NULL.
template <class T>
T& given(T* thing, const char* name) {
  if (thing == nullptr) throw Error(Code::kBadArgument, fmt::format("{} is NULL", name));
  return *thing;
}

// Dereferences a session that no call is using; throws as above.
template <class T>
T& free_session(T* session, const char* name = "session") {
  if (given(session, name).busy)
    throw Error(Code::kBadArgument, fmt::format("{} is in use by the call that this callback belongs to", name));
  return *session;
}

template <class T>
std::span<const T> list(const T* first, size_t n, const char* name) {
  if (first == nullptr && n > 0) throw Error(Code::kBadArgument, fmt::format("{} is NULL, but its size is {}", name, n));
  if (n > std::vector<std::remove_const_t<T>>().max_size())
    throw Error(Code::kBadArgument, fmt::format("{} has {} entries, which is too many", name, n));
  return {first, n};
}

// Copies a struct of the caller, which may be of an older version and so shorter than ours, over our defaults. Throws for a newer version
// and for a struct that was not initialized.
template <class T>
void read_struct(const T* theirs, T& ours, const char* name) {
  if (theirs == nullptr) return;
  size_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  if (size < sizeof size || size > sizeof(T))
    throw Error(Code::kBadArgument, fmt::format("{}: size is {}; {} to {} was expected; initialize it with its _init function", name, size,
                                                sizeof size, sizeof(T)));
  std::memcpy(static_cast<void*>(&ours), theirs, size);
}

// The inverse: copies as much as the caller's struct has room for.
template <class T>
void write_struct(T* theirs, T ours, const char* name) {
  size_t size = 0;
  std::memcpy(&size, &given(theirs, name), sizeof size);
  if (size < sizeof size || size > sizeof(T))
    throw Error(Code::kBadArgument,
                fmt::format("{}: size is {}; {} to {} was expected; set it to sizeof the struct", name, size, sizeof size, sizeof(T)));
  ours.size = size;
  std::memcpy(static_cast<void*>(theirs), &ours, size);
}

// For _init: copies as much of the defaults as the caller's struct has room for. A struct of a newer version gets size 0, so that
// read_struct() refuses it.
template <class T>
void write_defaults(T* theirs, size_t size, T defaults) noexcept {
  if (theirs == nullptr || size < sizeof size) return;
  defaults.size = size <= sizeof(T) ? size : 0;
  std::memcpy(static_cast<void*>(theirs), &defaults, std::min(size, sizeof(T)));
}

// Copies a result of `n` entries and `n_more` after them (the terminating zero of a text) if there is room; see kvik_tokenize().
template <class T>
kvik_status hand_over(const T* first, size_t n, size_t n_more, T* target, size_t capacity, size_t* n_written) {
  given(n_written, "the pointer for the size") = n;
  if (target == nullptr && capacity == 0) return KVIK_STATUS_OK;
  given(target, "the buffer");
  if (capacity < n + n_more)
    return fail(KVIK_STATUS_BUFFER_TOO_SMALL,
                fmt::format("the buffer has room for {} entries; {} are needed", capacity, n + n_more).c_str());
  std::copy_n(first, n + n_more, target);
  return KVIK_STATUS_OK;
}

// Texts and lists of ids, copied.
std::vector<std::string> text_list(const char* const* texts, size_t n_texts);
std::vector<std::vector<TokenId>> id_lists(const int32_t* const* first_ids, const size_t* n_ids, size_t n_lists);

// The fields of a kvik_generated.
struct GenerationFacts {
  const std::string& text;
  const std::vector<TokenId>&ids, &prompt_ids;
  Finish finish;
  Metrics metrics;
};
void write_generated(const GenerationFacts& facts, kvik_generated* generated);

Sampling sampling_of(const kvik_sampling* theirs);
GenerateOptions generate_options(const kvik_generate_options& ours);
EmbedOptions embed_options(const kvik_embed_options* theirs);
TranslateOptions translate_options(const kvik_translate_options* theirs);
TranscribeOptions transcribe_options(const kvik_transcribe_options* theirs);
LoadOptions load_options(const kvik_load_options* theirs);
EngineOptions engine_options(const kvik_engine_options* theirs);
RequestOptions request_options(const kvik_request_options& ours);

kvik_generate_options default_generate_options();
kvik_request_options default_request_options();

}  // namespace kvik::c
