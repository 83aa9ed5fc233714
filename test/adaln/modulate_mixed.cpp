#include "modulate_problem.hpp"

template class modulate_problem<__nv_bfloat16, __nv_bfloat16, float>;
