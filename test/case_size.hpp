#pragma once

#include <cstdlib>

/// Whether to run the cases that are large: on a GPU, unless the environment sets
/// ADAPTIVELOAD_SMALL_CASES, as it does under compute-sanitizer.
inline bool runs_large_cases() {
#ifdef __CUDACC__
  return std::getenv("ADAPTIVELOAD_SMALL_CASES") == nullptr;
#else
  return false;
#endif
}
