#include "modulate_problem.hpp"

template class modulate_problem<__half, __half, __half>;
