#pragma once

#include <string>

#include "contender.hpp"

/// Computes the operation's outputs with NaN in them before, and compares them with the CPU's:
/// whole rows, and the sums of some columns over all rows of some groups. What is wrong; "" if
/// nothing.
std::string check_results(const contender& who, const tensors& t, const enqueue& call);
