#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SIMT_ADDRESS_SANITIZER 1
#else
#define SIMT_ADDRESS_SANITIZER 0
#endif

/// Execution contexts that a thread of the host switches between.
namespace simt {

struct context {
  boost::context::detail::fcontext_t state = nullptr;
  const void* stack = nullptr;  // lowest address
  std::size_t stack_bytes = 0;
  [[maybe_unused]] void* fake_stack = nullptr;  // the address sanitizer's
};

/// To be called first on arrival in `to`, with what came along.
inline void arrive([[maybe_unused]] context& to, boost::context::detail::transfer_t came) {
  auto& from = *static_cast<context*>(came.data);
  from.state = came.fctx;
#if SIMT_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(to.fake_stack, &from.stack, &from.stack_bytes);
#endif
}

/// Goes on in `to`; returns when something switches back to `from`, unless `from` has ended.
inline void switch_context(context& from, context& to, [[maybe_unused]] bool ended = false) {
#if SIMT_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(ended ? nullptr : &from.fake_stack, to.stack, to.stack_bytes);
#endif
  arrive(from, boost::context::detail::jump_fcontext(to.state, &from));
}

/// A context that starts in `entry` on a stack whose frames, if there are any, are given up.
inline context make_context(std::byte* stack, std::size_t bytes,
                            void (*entry)(boost::context::detail::transfer_t)) {
#if SIMT_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(stack, bytes);
#endif
  return {boost::context::detail::make_fcontext(stack + bytes, bytes, entry), stack, bytes};
}

}  // namespace simt
