#pragma once

#include "backend/ort/api.h"

namespace kvik::backend::ort {

// Lets sessions with session.use_env_allocators allocate from an arena of huge pages, because in small pages a step over a long cache is
// limited by TLB misses. False if this runtime does not support it.
bool offer_huge_pages(const Api& api, Env* env);

}  // namespace kvik::backend::ort
