#include "modulate_problem.hpp"

operation modulate_float16() {
  return modulate<__half, __half, __half>("modulate_float16");
}
