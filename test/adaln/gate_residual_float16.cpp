#include "gate_residual_problem.hpp"

template class gate_residual_problem<__half, __half, __half>;
