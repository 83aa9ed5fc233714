#include "gate_residual_problem.hpp"

template class gate_residual_problem<float, float, float>;
