#pragma once

#include "contender.hpp"

/// Seconds of a call on the GPU, without what launching costs the CPU: several calls in a CUDA
/// graph, the graph launched repeatedly between events, and the median of that.
double median_seconds(const enqueue& call);

/// What an operation must move, in activations of 2 bytes an element.
struct traffic {
  int reads, writes;
};

/// With a group for each token a modulation vector counts as 2 activations, being float; else
/// vectors are too few to count.
traffic traffic_of(const operation& what, const adaptiveload::activation_shape& shape);

/// The roof of what moves activations of `elements` elements: seconds of the best of several
/// kernels that read and write as many and do nothing else. Measured at the first call for its
/// arguments.
double roof_seconds(const traffic& moved, std::int64_t elements);
