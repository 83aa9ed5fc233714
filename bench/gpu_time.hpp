#pragma once

#include "contender.hpp"

/// Seconds of a call on the GPU, without what launching costs the CPU: several calls in a CUDA
/// graph, the graph launched repeatedly between events, and the median of that.
double median_seconds(const enqueue& call);

/// The roof of an operation on `elements` elements of 2 bytes an activation: seconds of the best of
/// several kernels that read and write as many activations and do nothing else. Measured at the
/// first call for its arguments.
double roof_seconds(const operation& what, std::int64_t elements);
