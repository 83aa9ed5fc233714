#pragma once

#include <adaptiveload/adaln/row.cuh>

namespace adaptiveload::detail {

/// What the gradient of a row's x takes from the row's sums of x - mean, g and g * (x - mean), with
/// g = dy * (1 + scale). The first sum is 0 but for the rounding of the saved mean, which it gives
/// back: without it, a mean of 100 deviations costs float32 a digit.
struct row_gradient {
  float mean, rstd, offset, constant, projection, rest;

  /// `weight`: 1 / features.
  __device__ row_gradient(float saved_mean, float saved_rstd, const sums<3>& sum, float weight)
      : mean(saved_mean), rstd(saved_rstd) {
    rest = sum.value[0] * weight;
    offset = -rest * rstd;
    constant = -rstd * weight * sum.value[1];
    projection = -rstd * rstd * weight * (sum.value[2] - rest * sum.value[1]);
  }

  __device__ float normal(float x) const { return fmaf(x - mean, rstd, offset); }

  __device__ float dx(float normal, float gradient) const {
    return fmaf(normal, projection, fmaf(gradient, rstd, constant));
  }
};

}  // namespace adaptiveload::detail
