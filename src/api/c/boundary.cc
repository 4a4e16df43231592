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
  } catch (...) { return fail(KVIK_STATUS_INTERNAL, "an exception of an unknown kind came out of a callback"); }
}

}  // namespace kvik::c

const char* kvik_last_error(void) { return kvik::c::last_error; }

const char* kvik_version(void) { return kvik::kVersion.data(); }
