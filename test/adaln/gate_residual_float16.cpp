#include "gate_residual_problem.hpp"

operation gate_residual_float16() {
  return gate_residual<__half, __half, __half>("gate_residual_float16");
}
