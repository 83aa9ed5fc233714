#include "gate_residual_problem.hpp"

template class gate_residual_problem<float, float, float>;  // for arguments_test.cpp

operation gate_residual_float32() {
  return gate_residual<float, float, float>("gate_residual_float32");
}
