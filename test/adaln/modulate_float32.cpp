#include "modulate_problem.hpp"

operation modulate_float32() {
  return modulate<float, float, float>("modulate_float32");
}
