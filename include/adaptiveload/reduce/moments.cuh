#pragma once

#include <adaptiveload/support/device.cuh>

namespace adaptiveload {

/// Count, mean and sum of squared deviations from the mean (M2) of some numbers. The variance is
/// m2 / count. A default one is of no numbers.
struct moments {
  float count = 0;
  float mean = 0;
  float m2 = 0;

  /// Takes in one more number (Welford 1962).
  __host__ __device__ void add(float value) {
    count += 1;
    const float difference = value - mean;
    mean += difference / count;
    m2 += difference * (value - mean);
  }
};

/// The moments of both sets of numbers together (Chan, Golub and LeVeque 1983): associative up to
/// rounding, free of the cancellation of a sum of squares.
struct merge_moments {
  __host__ __device__ moments operator()(const moments& a, const moments& b) const {
    const float count = a.count + b.count;
    if (count == 0) return a;
    const float difference = b.mean - a.mean;
    const float share = b.count / count;
    return {count, a.mean + difference * share,
            a.m2 + b.m2 + difference * difference * a.count * share};
  }
};

}  // namespace adaptiveload
