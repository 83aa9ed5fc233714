#include "contender.hpp"

namespace al = adaptiveload;

std::vector<contender> fused() {
  const auto forward = [](const tensors& t) -> enqueue {
    return
        [args = t.forward()](cudaStream_t stream) { al::layernorm_modulate_forward(args, stream); };
  };
  // Both forms of the backward, given their scratch.
  const auto with_scratch = [](const tensors& t, std::size_t bytes, auto backward) -> enqueue {
    auto scratch = std::make_shared<device_array<std::byte>>(static_cast<std::int64_t>(bytes));
    return [args = t.backward(), scratch, bytes, backward](cudaStream_t stream) {
      auto with = args;
      with.scratch = scratch->data();
      with.scratch_bytes = bytes;
      backward(with, stream);
    };
  };
  const auto backward = [=](const tensors& t) {
    return with_scratch(t, al::layernorm_modulate_backward_scratch_bytes(t.shape),
                        [](const auto& args, cudaStream_t stream) {
                          al::layernorm_modulate_backward(args, stream);
                        });
  };
  // One of the kernels, whichever the library would choose.
  const auto backward_by = [=](auto launch) {
    return [=](const tensors& t) {
      return with_scratch(t, al::layernorm_modulate_backward_scratch_bytes(t.shape),
                          [launch, device = al::device::current_properties()](const auto& args,
                                                                              cudaStream_t stream) {
                            launch(al::detail::kernel_arguments(args),
                                   al::detail::groups_of(args.shape),
                                   static_cast<float*>(args.scratch), stream, device);
                          });
    };
  };
  const auto two_pass = backward_by([](const auto& args, const auto& groups, float* scratch,
                                       cudaStream_t stream, const auto& device) {
    al::detail::launch_backward_two_pass<false>(args, groups, scratch, stream,
                                                device.multiprocessors);
  });
  // What devices before compute capability 9.0 run.
  const auto forward_without_bulk_copies = [](const tensors& t) -> enqueue {
    return [args = t.forward()](cudaStream_t stream) {
      al::detail::launch_forward<false>(al::detail::without_gate(args), stream, false);
    };
  };
  const auto backward_without_bulk_copies =
      backward_by([](const auto& args, const auto& groups, float* scratch, cudaStream_t stream,
                     const auto& device) {
        if (!al::detail::launch_backward_one_pass<false>(args, groups, scratch, stream, device,
                                                         false)) {
          al::detail::launch_backward_two_pass<false>(args, groups, scratch, stream,
                                                      device.multiprocessors);
        }
      });
  return {{"adaptiveload", modulate_forward, 4e-3, forward},
          {"no_bulk_copies", modulate_forward, 4e-3, forward_without_bulk_copies},
          {"adaptiveload", modulate_backward, 4e-3, backward},
          {"no_bulk_copies", modulate_backward, 4e-3, backward_without_bulk_copies},
          {"two_pass", modulate_backward, 4e-3, two_pass}};
}
