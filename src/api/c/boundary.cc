#include "api/c/boundary.h"

#include <new>

namespace kvik::c {
namespace {

thread_local std::string last_message;
thread_local const char* last_error = "";

static_assert(static_cast<int>(KVIK_STATUS_INTERNAL) == static_cast<int>(Code::kInternal) + 1);

}  // namespace

kvik_status fail(kvik_status status, const char* message) noexcept {
  try {
    last_message = message;
    last_error = last_message.c_str();
  } catch (...) { last_error = "out of memory"; }
  return status;
}

kvik_status fail_with_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return fail(static_cast<kvik_status>(static_cast<int>(e.code()) + 1), e.what());
  } catch (const std::bad_alloc&) { return fail(KVIK_STATUS_TOO_LARGE, "out of memory"); } catch (const std::exception& e) {
    return fail(KVIK_STATUS_INTERNAL, e.what());  // thrown by a callback
  } catch (...) { return fail(KVIK_STATUS_INTERNAL, "a callback threw an exception of unknown type"); }
}

std::vector<std::string> text_list(const char* const* texts, size_t n_texts) {
  std::vector<std::string> copies;
  for (const char* text : list(texts, n_texts, "texts")) copies.emplace_back(&given(text, "a text"));
  return copies;
}

std::vector<std::vector<TokenId>> id_lists(const int32_t* const* first_ids, const size_t* n_ids, size_t n_lists) {
  const std::span<const int32_t* const> firsts = list(first_ids, n_lists, "lists of ids");
  const std::span<const size_t> lengths = list(n_ids, n_lists, "n_ids");
  std::vector<std::vector<TokenId>> copies;
  for (size_t i = 0; i < n_lists; ++i) {
    const std::span<const int32_t> ids = list(firsts[i], lengths[i], "a list of ids");
    copies.emplace_back(ids.begin(), ids.end());
  }
  return copies;
}

}  // namespace kvik::c

const char* kvik_last_error(void) { return kvik::c::last_error; }

const char* kvik_version(void) { return kvik::kVersion.data(); }
