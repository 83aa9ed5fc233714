#include "contender.hpp"

namespace al = adaptiveload;

namespace {

using preparation = std::function<enqueue(const tensors&)>;

/// Calls with the arguments that a member of `tensors` gives.
template <class Arguments, class Call>
preparation with(Arguments arguments, Call call) {
  return [=](const tensors& t) -> enqueue {
    return [args = (t.*arguments)(), call](cudaStream_t stream) { call(args, stream); };
  };
}

/// And with scratch.
template <class Arguments, class Call>
preparation with(Arguments arguments, std::size_t (*scratch_bytes)(const al::activation_shape&),
                 Call call) {
  return [=](const tensors& t) -> enqueue {
    auto args = (t.*arguments)();
    args.scratch_bytes = scratch_bytes(t.shape);
    const auto scratch =
        std::make_shared<device_array<std::byte>>(static_cast<std::int64_t>(args.scratch_bytes));
    args.scratch = scratch->data();
    return [args, scratch, call](cudaStream_t stream) { call(args, stream); };
  };
}

/// Without bulk copies where `OnePass`, as devices before compute capability 9.0 run it; else in
/// two passes, whichever the library would choose.
template <bool Gated, bool OnePass>
preparation backward_by_hand() {
  const auto call = [](const auto& args, cudaStream_t stream) {
    const al::device::properties device = al::device::current_properties();
    auto to = al::detail::kernel_arguments(args);
    auto& [scale, shift, gate] = to.gradients;
    const auto groups = al::detail::groups_of(to.shape, to.gate, to.scale, scale, shift, gate);
    auto* const scratch = static_cast<float*>(args.scratch);
    if (OnePass && !al::detail::is_per_token(groups) &&
        al::detail::launch_backward_one_pass<Gated>(to, groups, scratch, stream, device, false)) {
      return;
    }
    al::detail::launch_backward_two_pass<Gated>(to, groups, scratch, stream,
                                                device.multiprocessors);
  };
  if constexpr (Gated) {
    return with(&tensors::gated_backward,
                al::gate_residual_layernorm_modulate_backward_scratch_bytes, call);
  } else {
    return with(&tensors::backward, al::layernorm_modulate_backward_scratch_bytes, call);
  }
}

}  // namespace

std::vector<contender> fused() {
  const auto forward = with(&tensors::forward, [](const auto& args, cudaStream_t stream) {
    al::layernorm_modulate_forward(args, stream);
  });
  const auto forward_without_bulk_copies =
      with(&tensors::forward, [](const auto& args, cudaStream_t stream) {
        al::detail::launch_forward<false>(al::detail::without_gate(args), stream,
                                          al::device::current_properties(), false);
      });
  const auto backward = with(
      &tensors::backward, al::layernorm_modulate_backward_scratch_bytes,
      [](const auto& args, cudaStream_t stream) { al::layernorm_modulate_backward(args, stream); });
  const auto gated_forward =
      with(&tensors::gated_forward, [](const auto& args, cudaStream_t stream) {
        al::gate_residual_layernorm_modulate_forward(args, stream);
      });
  const auto gated_forward_without_bulk_copies =
      with(&tensors::gated_forward, [](const auto& args, cudaStream_t stream) {
        al::detail::launch_forward<true>(args, stream, al::device::current_properties(), false);
      });
  const auto gated_backward =
      with(&tensors::gated_backward, al::gate_residual_layernorm_modulate_backward_scratch_bytes,
           [](const auto& args, cudaStream_t stream) {
             al::gate_residual_layernorm_modulate_backward(args, stream);
           });

  constexpr double tolerance = 4e-3;
  return {{"adaptiveload", modulate_forward, tolerance, forward},
          {"no_bulk_copies", modulate_forward, tolerance, forward_without_bulk_copies},
          {"adaptiveload", modulate_backward, tolerance, backward},
          {"no_bulk_copies", modulate_backward, tolerance, backward_by_hand<false, true>()},
          {"two_pass", modulate_backward, tolerance, backward_by_hand<false, false>()},
          {"adaptiveload", gate_forward, tolerance, gated_forward},
          {"no_bulk_copies", gate_forward, tolerance, gated_forward_without_bulk_copies},
          {"adaptiveload", gate_backward, tolerance, gated_backward},
          {"no_bulk_copies", gate_backward, tolerance, backward_by_hand<true, true>()}};
}
