#include "modulate_problem.hpp"

operation modulate_bfloat16() {
  return modulate<__nv_bfloat16, float, __nv_bfloat16>("modulate_bfloat16");
}
