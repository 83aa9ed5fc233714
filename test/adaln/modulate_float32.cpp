#include "modulate_problem.hpp"

template class modulate_problem<float, float, float>;  // for arguments_test.cpp

operation modulate_float32() {
  return modulate<float, float, float>("modulate_float32");
}
