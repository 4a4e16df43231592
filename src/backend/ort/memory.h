#pragma once

#include "backend/ort/api.h"

namespace kvik::backend::ort {

// Lets sessions that ask for it (session.use_env_allocators) take their memory from an arena of huge pages: the runtime's own lies in
// small ones, and a step over a long cache then waits for addresses more than for bytes. False where this runtime does not take it.
bool offer_huge_pages(const Api& api, Env* env);

}  // namespace kvik::backend::ort
