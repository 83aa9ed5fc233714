#include "gate_residual_problem.hpp"

template class gate_residual_problem<__nv_bfloat16, float, __nv_bfloat16>;
