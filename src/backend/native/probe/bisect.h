#pragma once

#include <cstdint>

namespace kvik::native {

// The largest number below `bad` for which `holds` is true. It is true of `good`, not asked of `bad`, and must change once between them.
template <class Holds>
int64_t bisect(int64_t good, int64_t bad, const Holds& holds) {
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace kvik::native
