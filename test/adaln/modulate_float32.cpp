#include "modulate_problem.hpp"

template class modulate_problem<float, float, float>;
