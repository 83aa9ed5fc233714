#include <vector>

#include "problem.hpp"

// Each of a file of its own: they take long to compile.
operation modulate_bfloat16();
operation modulate_float32();
operation modulate_float16();
operation modulate_mixed();
operation gate_residual_bfloat16();
operation gate_residual_float32();
operation gate_residual_float16();
operation gate_residual_mixed();

const std::vector<operation>& operations() {
  static const std::vector<operation> all{modulate_bfloat16(),      modulate_float32(),
                                          modulate_float16(),       modulate_mixed(),
                                          gate_residual_bfloat16(), gate_residual_float32(),
                                          gate_residual_float16(),  gate_residual_mixed()};
  return all;
}
