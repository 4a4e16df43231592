#pragma once

namespace kvik::cli {

// How fast `n_threads` threads together read memory that is in no cache, in GB/s: the median of a few passes. Takes about 0.3 s.
double read_bandwidth_gb_per_s(int n_threads);

}  // namespace kvik::cli
