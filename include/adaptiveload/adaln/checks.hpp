#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/support/error.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace adaptiveload::detail {

template <class T>
void require_pointer(const T* pointer, std::string_view argument) {
  if (pointer == nullptr) throw_invalid(argument, "null", "a pointer to data");
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address % alignof(T) != 0) {
    throw_invalid(argument, "address " + std::to_string(address),
                  "a multiple of " + std::to_string(alignof(T)) + ", the alignment of its type");
  }
}

inline void check_shape(const activation_shape& shape) {
  require(shape.batch >= 0, "shape.batch", shape.batch, "0 or more");
  require(shape.tokens >= 0, "shape.tokens", shape.tokens, "0 or more");
  require(shape.features >= 1, "shape.features", shape.features, "1 or more");
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 16;  // 16 bytes each
  const std::int64_t tokens = shape.tokens == 0 ? 1 : shape.tokens;
  require(shape.features <= limit / tokens && shape.batch <= limit / tokens / shape.features,
          "shape.batch", shape.batch, "batch * tokens * features below 2^59");
}

/// Rows (tokens of all samples) of a checked shape.
constexpr std::int64_t rows(const activation_shape& shape) {
  return shape.batch * shape.tokens;
}

template <class G>
void check_gradient(const modulation_gradient<G>& gradient, const activation_shape& shape,
                    const std::string& argument) {
  require_pointer(gradient.data, argument + ".data");
  require(shape.batch <= 1 || std::abs(gradient.batch_stride) >= shape.features,
          argument + ".batch_stride", gradient.batch_stride,
          "at least shape.features = " + std::to_string(shape.features) +
              " either way, so that no two samples write one place");
}

inline void check_scratch(const void* scratch, std::size_t bytes, std::size_t needed) {
  require(bytes >= needed, "scratch_bytes", bytes, std::to_string(needed) + " or more");
  if (needed == 0) return;
  if (scratch == nullptr) throw_invalid("scratch", "null", "a pointer to scratch_bytes bytes");
  const auto address = reinterpret_cast<std::uintptr_t>(scratch);
  require(address % 16 == 0, "scratch", address, "an address that is a multiple of 16");
}

template <class X, class M, class Y>
void check_arguments(const layernorm_modulate_args<X, M, Y>& args) {
  check_shape(args.shape);
  require(args.epsilon > 0 && std::isfinite(args.epsilon), "epsilon", args.epsilon,
          "finite and above 0");
  if (rows(args.shape) == 0) return;
  require_pointer(args.x, "x");
  require_pointer(args.scale.data, "scale.data");
  require_pointer(args.shift.data, "shift.data");
  require_pointer(args.y, "y");
}

template <class X, class M, class Y>
void check_arguments(const layernorm_modulate_backward_args<X, M, Y>& args) {
  check_shape(args.shape);
  if (args.shape.batch == 0) return;
  check_gradient(args.dscale, args.shape, "dscale");
  check_gradient(args.dshift, args.shape, "dshift");
  if (args.shape.tokens == 0) return;
  require_pointer(args.x, "x");
  require_pointer(args.mean, "mean");
  require_pointer(args.rstd, "rstd");
  require_pointer(args.scale.data, "scale.data");
  require_pointer(args.dy, "dy");
  require_pointer(args.dx, "dx");
  const void* const dx = args.dx;  // written while x and dy may be read again
  if (dx == args.x) throw_invalid("dx", "x", "memory of its own");
  if (dx == args.dy) throw_invalid("dx", "dy", "memory of its own");
}

}  // namespace adaptiveload::detail
