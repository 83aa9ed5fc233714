#include "gate_residual_problem.hpp"

operation gate_residual_float32() {
  return gate_residual<float, float, float>("gate_residual_float32");
}
