#include "modulate_problem.hpp"

operation modulate_mixed() {
  return modulate<__nv_bfloat16, __nv_bfloat16, float>("modulate_mixed");
}
