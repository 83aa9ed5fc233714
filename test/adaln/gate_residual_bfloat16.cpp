#include "gate_residual_problem.hpp"

operation gate_residual_bfloat16() {
  return gate_residual<__nv_bfloat16, float, __nv_bfloat16>("gate_residual_bfloat16");
}
