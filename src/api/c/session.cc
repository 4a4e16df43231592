#include <algorithm>

#include "api/c/boundary.h"

using namespace kvik::c;

kvik_status kvik_session_new(const kvik_model* model, kvik_session** session) {
  return guarded([&] {
    given(session, "session") = nullptr;
    *session = new kvik_session{given(model, "model").model.session()};
  });
}

void kvik_session_free(kvik_session* session) {
  if (session != nullptr && session->busy) {
    session->doomed = true;
    return;
  }
  delete session;
}

namespace {

kvik_status no_memory() { return fail(KVIK_STATUS_NO_MEMORY, kvik::kNoMemoryMessage); }

kvik_status status_of(kvik::AppendStatus status, const kvik::Session& session, size_t n_ids) {
  if (status == kvik::AppendStatus::kDone) return KVIK_STATUS_OK;
  if (status == kvik::AppendStatus::kNoMemory) return no_memory();
  return fail(KVIK_STATUS_CONTEXT_FULL, fmt::format("the session has room for {} more of {} positions; {} tokens were given",
                                                    session.capacity() - session.length(), session.capacity(), n_ids)
                                            .c_str());
}

}  // namespace

kvik_status kvik_session_append(kvik_session* session, const int32_t* ids, size_t n_ids) {
  return guarded([&] {
    kvik::Session& own = free_session(session).session;
    return status_of(own.append(list(ids, n_ids, "ids")), own, n_ids);
  });
}

kvik_status kvik_session_append_tree(kvik_session* session, const int32_t* ids, const int32_t* parents, size_t n_nodes) {
  return guarded([&] {
    kvik_session& own = free_session(session);
    own.tree = own.session.append_tree(list(ids, n_nodes, "ids"), list(parents, n_nodes, "parents"));
    return status_of(own.tree.status(), own.session, n_nodes);
  });
}

kvik_status kvik_session_tree_logits(kvik_session* session, int32_t node, const float** logits, size_t* n_logits) {
  return guarded([&] {
    given(logits, "logits");
    given(n_logits, "n_logits");
    const std::span<const float> row = free_session(session).tree[node];
    *logits = row.data();
    *n_logits = row.size();
  });
}

kvik_status kvik_session_keep(kvik_session* session, int32_t node) {
  return guarded([&] {
    free_session(session).session.keep(node);
    session->tree = {};
  });
}

kvik_status kvik_session_logits(kvik_session* session, const float** logits, size_t* n_logits) {
  return guarded([&] {
    given(logits, "logits");
    given(n_logits, "n_logits");
    const std::span<const float> row = free_session(session).session.logits();
    *logits = row.data();
    *n_logits = row.size();
  });
}

kvik_status kvik_session_sample(kvik_session* session, const kvik_sampling* sampling, int32_t* token) {
  return guarded([&] {
    given(token, "token");
    *token = free_session(session).session.sample(sampling_of(sampling));
  });
}

kvik_status kvik_session_fork(const kvik_session* session, kvik_session** branch) {
  return guarded([&] {
    given(branch, "branch") = nullptr;
    *branch = new kvik_session{free_session(session).session.fork()};
  });
}

kvik_status kvik_session_rewind(kvik_session* session, int32_t length) {
  return guarded([&] { free_session(session).session.rewind(length); });
}

kvik_status kvik_session_save(const kvik_session* session, const char* file) {
  return guarded([&] { free_session(session).session.save(&given(file, "file")); });
}

kvik_status kvik_session_load(const kvik_model* model, const char* file, kvik_session** session) {
  return guarded([&] {
    given(session, "session") = nullptr;
    *session = new kvik_session{given(model, "model").model.load_session(&given(file, "file"))};
  });
}

kvik_status kvik_session_length(const kvik_session* session, int32_t* length) {
  return guarded([&] { given(length, "length") = free_session(session).session.length(); });
}

kvik_status kvik_session_capacity(const kvik_session* session, int32_t* capacity) {
  return guarded([&] { given(capacity, "capacity") = free_session(session).session.capacity(); });
}

kvik_status kvik_session_tokens(const kvik_session* session, const int32_t** ids, size_t* n_ids) {
  return guarded([&] {
    given(ids, "ids");
    given(n_ids, "n_ids");
    const std::span<const kvik::TokenId> tokens = free_session(session).session.tokens();
    *ids = tokens.data();
    *n_ids = tokens.size();
  });
}

kvik_status kvik_step(const kvik_model* model, kvik_session* const* sessions, const int32_t* tokens, size_t n, float* logits,
                      size_t capacity) {
  return guarded([&] {
    const kvik::Model& loaded = given(model, "model").model;
    const std::span<const int32_t> given_tokens = list(tokens, n, "tokens");
    std::vector<kvik::Session*> stepped;
    for (kvik_session* handle : list(sessions, n, "sessions")) stepped.push_back(&free_session(handle, "a session").session);
    const auto vocab = static_cast<size_t>(loaded.vocab_size());
    if (logits != nullptr && capacity / std::max<size_t>(vocab, 1) < n)
      return fail(KVIK_STATUS_BUFFER_TOO_SMALL,
                  fmt::format("the buffer has room for {} logits; {} rows of {} are needed", capacity, n, vocab).c_str());
    const kvik::AppendStatus status = loaded.step(stepped, given_tokens);
    if (status == kvik::AppendStatus::kNoMemory) return no_memory();
    if (status != kvik::AppendStatus::kDone)
      return fail(KVIK_STATUS_CONTEXT_FULL, "the context of a session is full; nothing was appended");
    for (size_t i = 0; logits != nullptr && i < n; ++i) std::ranges::copy(stepped[i]->logits(), logits + i * vocab);
    return KVIK_STATUS_OK;
  });
}
