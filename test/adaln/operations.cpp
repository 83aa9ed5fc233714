#include <adaptiveload/adaln.cuh>
#include <memory>
#include <string_view>
#include <vector>

#include "gate_residual_problem.hpp"
#include "modulate_problem.hpp"
#include "problem.hpp"

namespace al = adaptiveload;

namespace {

template <template <class, class, class> class Problem, class X, class M, class Y>
std::unique_ptr<problem> make(const al::activation_shape& shape, const problem_options& options) {
  return std::make_unique<Problem<X, M, Y>>(shape, options);
}

template <class X, class M, class Y>
operation modulate(const char* name) {
  return {.name = name,
          .make = make<modulate_problem, X, M, Y>,
          .modulations = {"scale", "shift"},
          .arguments = {"x", "y", "dy", "dx"},
          .scratch_bytes = al::layernorm_modulate_backward_scratch_bytes};
}

template <class X, class M, class Y>
operation gate_residual(const char* name) {
  return {.name = name,
          .make = make<gate_residual_problem, X, M, Y>,
          .modulations = {"gate", "scale", "shift"},
          .arguments = {"residual", "branch", "r", "y", "dy", "dr", "dresidual", "dbranch"},
          .scratch_bytes = al::gate_residual_layernorm_modulate_backward_scratch_bytes};
}

}  // namespace

const std::vector<operation>& operations() {
  static const std::vector<operation> all{
      modulate<__nv_bfloat16, float, __nv_bfloat16>("modulate_bfloat16"),
      modulate<float, float, float>("modulate_float32"),
      modulate<__half, __half, __half>("modulate_float16"),
      modulate<__nv_bfloat16, __nv_bfloat16, float>("modulate_mixed"),
      gate_residual<__nv_bfloat16, float, __nv_bfloat16>("gate_residual_bfloat16"),
      gate_residual<float, float, float>("gate_residual_float32"),
      gate_residual<__half, __half, __half>("gate_residual_float16"),
      gate_residual<__nv_bfloat16, __nv_bfloat16, float>("gate_residual_mixed")};
  return all;
}
