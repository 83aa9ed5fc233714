#include "gate_residual_problem.hpp"

operation gate_residual_mixed() {
  return gate_residual<__nv_bfloat16, __nv_bfloat16, float>("gate_residual_mixed");
}
