#include "modulate_problem.hpp"

template class modulate_problem<__nv_bfloat16, float, __nv_bfloat16>;
