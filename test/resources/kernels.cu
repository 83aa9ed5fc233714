#include <adaptiveload/adaln.cuh>

namespace al = adaptiveload;

/// The launches hold every kernel that their choice can pick.
template <class X, class M, class Y>
struct launches {
  static void modulate(const al::layernorm_modulate_args<X, M, Y>& args) {
    al::layernorm_modulate_forward(args);
  }
  static void modulate_backward(const al::layernorm_modulate_backward_args<X, M, Y>& args) {
    al::layernorm_modulate_backward(args);
  }
  static void gate_residual(const al::gate_residual_layernorm_modulate_args<X, M, Y>& args) {
    al::gate_residual_layernorm_modulate_forward(args);
  }
  static void gate_residual_backward(
      const al::gate_residual_layernorm_modulate_backward_args<X, M, Y>& args) {
    al::gate_residual_layernorm_modulate_backward(args);
  }
};

template struct launches<__nv_bfloat16, float, __nv_bfloat16>;
template struct launches<float, float, float>;
