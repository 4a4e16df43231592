#pragma once

#include <cstdint>

#include "backend/native/graph/refusal.h"

namespace kvik::native {

// The largest number below `bad` for which `holds` is true. It must be true for `good`, is not evaluated for `bad`, and must change once
// between them. Refuses if `holds` refuses.
template <class Holds>
Expected<int64_t> bisect(int64_t good, int64_t bad, const Holds& holds) {
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    KVIK_TRY(const bool is_good, Expected<bool>(holds(middle)));
    (is_good ? good : bad) = middle;
  }
  return good;
}

}  // namespace kvik::native
