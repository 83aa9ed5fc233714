#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace adaptiveload::detail {

/// Of a pointer that may be null.
template <class T>
void require_aligned(const T* pointer, std::string_view argument) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address % alignof(T) != 0) {
    throw_invalid(argument, "address " + std::to_string(address),
                  "a multiple of " + std::to_string(alignof(T)) + ", the alignment of its type");
  }
}

template <class T>
void require_pointer(const T* pointer, std::string_view argument) {
  if (pointer == nullptr) throw_invalid(argument, "null", "a pointer to data");
  require_aligned(pointer, argument);
}

/// Of an output that is written while `other` may still be read or written.
inline void require_apart(const void* output, std::string_view argument, const void* other,
                          std::string_view name_of_other) {
  if (output == other) throw_invalid(argument, name_of_other, "memory of its own");
}

/// Rows (tokens of all samples) of a checked shape.
constexpr std::int64_t rows(const activation_shape& shape) {
  return shape.cu_seqlens != nullptr ? shape.tokens : shape.batch * shape.tokens;
}

/// What `cu_seqlens` holds is left to those who can read it.
inline void check_shape(const activation_shape& shape) {
  const auto [batch, tokens, features, groups, cu_seqlens] = shape;
  require(batch >= 0, "shape.batch", batch, "0 or more");
  require(tokens >= 0, "shape.tokens", tokens, "0 or more");
  require(features >= 1, "shape.features", features, "1 or more");
  require(groups >= 1, "shape.groups", groups, "1 or more");
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 16;  // 16 bytes each
  if (cu_seqlens != nullptr) {
    require_aligned(cu_seqlens, "shape.cu_seqlens");
    require(groups == 1, "shape.groups", groups, "1, as shape.cu_seqlens is given");
    require(tokens <= std::numeric_limits<std::int32_t>::max(), "shape.tokens", tokens,
            "below 2^31, as shape.cu_seqlens is given");
    require(batch > 0 || tokens == 0, "shape.batch", batch,
            "1 or more, as shape.cu_seqlens is given and shape.tokens is not 0");
    require(features <= limit / std::max<std::int64_t>(tokens, 1), "shape.features", features,
            "tokens * features below 2^59");
    require(batch <= limit / features, "shape.batch", batch, "batch * features below 2^59");
  } else {
    if (tokens % groups != 0) {
      throw_invalid("shape.groups", groups,
                    "a divisor of shape.tokens = " + std::to_string(tokens));
    }
    const std::int64_t vectors = std::max({tokens, groups, std::int64_t{1}});
    require(features <= limit / vectors && batch <= limit / vectors / features, "shape.batch",
            batch,
            tokens > 0 ? "batch * tokens * features below 2^59"
                       : "batch * groups * features below 2^59");
  }
}

template <class M>
void check_modulation(const modulation<M>& of, const std::string& argument) {
  require_pointer(of.data, argument + ".data");
  require_aligned(of.table, argument + ".table");
}

template <class M>
void check_optional_modulation(const modulation<M>& of, const std::string& argument) {
  if (of.data != nullptr) {
    check_modulation(of, argument);
  } else if (of.table != nullptr) {
    throw_invalid(argument + ".table", "given", "null, as " + argument + ".data is null");
  }
}

/// Whether `inner_count` vectors of `features` elements, `inner` apart, fit between the starts of
/// `outer_count` such runs, `outer` apart.
constexpr bool nests(std::uint64_t inner, std::int64_t inner_count, std::uint64_t outer,
                     std::int64_t outer_count, std::int64_t features) {
  const auto size = static_cast<std::uint64_t>(features);
  const auto steps = static_cast<std::uint64_t>(inner_count - 1);
  if (inner_count > 1 && inner < size) return false;
  if (outer_count <= 1) return true;
  return outer >= size && (inner_count <= 1 || (outer - size) / inner >= steps);
}

template <class G>
void check_gradient(const modulation_gradient<G>& gradient, const activation_shape& shape,
                    const std::string& argument) {
  require_aligned(gradient.total, argument + ".total");
  if (gradient.data == nullptr || shape.batch == 0) return;
  require_aligned(gradient.data, argument + ".data");
  const auto size = [](std::int64_t stride) {
    const auto bits = static_cast<std::uint64_t>(stride);
    return stride < 0 ? 0 - bits : bits;
  };
  const std::uint64_t by_batch = size(gradient.batch_stride);
  const std::uint64_t by_group = size(gradient.group_stride);
  const std::int64_t batch = shape.batch, groups = shape.groups, features = shape.features;
  if (nests(by_group, groups, by_batch, batch, features)) return;
  if (nests(by_batch, batch, by_group, groups, features)) return;

  const auto least = static_cast<std::uint64_t>(features);
  const std::string allowed = "at least shape.features = " + std::to_string(features) +
                              " either way, so that no two vectors share a place";
  require(batch == 1 || by_batch >= least, argument + ".batch_stride", gradient.batch_stride,
          allowed);
  require(groups == 1 || by_group >= least, argument + ".group_stride", gradient.group_stride,
          allowed);
  throw_invalid(argument + ".batch_stride", gradient.batch_stride,
                "one that, with group_stride = " + std::to_string(gradient.group_stride) +
                    ", leads past a sample's groups or stays within a group's samples, so that no "
                    "two vectors share a place");
}

inline void check_scratch(const void* scratch, std::size_t bytes, std::size_t needed) {
  require(bytes >= needed, "scratch_bytes", bytes, std::to_string(needed) + " or more");
  if (needed == 0) return;
  if (scratch == nullptr) throw_invalid("scratch", "null", "a pointer to scratch_bytes bytes");
  const auto address = reinterpret_cast<std::uintptr_t>(scratch);
  require(address % 16 == 0, "scratch", address, "an address that is a multiple of 16");
}

inline void check_norm(norm kind, modulate form) {
  require(kind == norm::layer || kind == norm::root_mean_square, "kind", static_cast<int>(kind),
          "norm::layer or norm::root_mean_square");
  require(form == modulate::one_plus_scale || form == modulate::scale, "form",
          static_cast<int>(form), "modulate::one_plus_scale or modulate::scale");
}

inline void check_epsilon(double epsilon) {
  require(epsilon > 0 && std::isfinite(epsilon), "epsilon", epsilon, "finite and above 0");
}

template <class X, class M, class Y>
void check_arguments(const layernorm_modulate_args<X, M, Y>& args) {
  check_shape(args.shape);
  check_epsilon(args.epsilon);
  check_norm(args.kind, args.form);
  if (rows(args.shape) == 0) return;
  require_pointer(args.x, "x");
  check_modulation(args.scale, "scale");
  check_optional_modulation(args.shift, "shift");
  require_pointer(args.y, "y");
  require_aligned(args.mean, "mean");
  require_aligned(args.rstd, "rstd");
  if constexpr (!std::is_same_v<X, Y>) require_apart(args.y, "y", args.x, "x");
}

template <class X, class M, class Y>
void check_arguments(const layernorm_modulate_backward_args<X, M, Y>& args) {
  check_shape(args.shape);
  check_norm(args.kind, args.form);
  check_gradient(args.dscale, args.shape, "dscale");
  check_gradient(args.dshift, args.shape, "dshift");
  if (rows(args.shape) == 0) return;
  require_pointer(args.x, "x");
  if (args.kind == norm::layer) require_pointer(args.mean, "mean");
  require_pointer(args.rstd, "rstd");
  check_modulation(args.scale, "scale");
  require_pointer(args.dy, "dy");
  require_pointer(args.dx, "dx");
  require_apart(args.dx, "dx", args.x, "x");
  require_apart(args.dx, "dx", args.dy, "dy");
}

template <class X, class M, class Y>
void check_arguments(const gate_residual_layernorm_modulate_args<X, M, Y>& args) {
  check_shape(args.shape);
  check_epsilon(args.epsilon);
  check_norm(args.kind, args.form);
  if (rows(args.shape) == 0) return;
  require_pointer(args.residual, "residual");
  require_pointer(args.branch, "branch");
  check_modulation(args.gate, "gate");
  check_modulation(args.scale, "scale");
  check_optional_modulation(args.shift, "shift");
  require_pointer(args.r, "r");
  require_pointer(args.y, "y");
  require_aligned(args.mean, "mean");
  require_aligned(args.rstd, "rstd");
  require_apart(args.r, "r", args.branch, "branch");
  require_apart(args.y, "y", args.residual, "residual");
  require_apart(args.y, "y", args.r, "r");
  if constexpr (!std::is_same_v<X, Y>) {
    require_apart(args.r, "r", args.residual, "residual");
    require_apart(args.y, "y", args.branch, "branch");
  }
}

template <class X, class M, class Y>
void check_arguments(const gate_residual_layernorm_modulate_backward_args<X, M, Y>& args) {
  check_shape(args.shape);
  check_norm(args.kind, args.form);
  check_gradient(args.dgate, args.shape, "dgate");
  check_gradient(args.dscale, args.shape, "dscale");
  check_gradient(args.dshift, args.shape, "dshift");
  if (rows(args.shape) == 0) return;
  require_pointer(args.r, "r");
  require_pointer(args.branch, "branch");
  if (args.kind == norm::layer) require_pointer(args.mean, "mean");
  require_pointer(args.rstd, "rstd");
  check_modulation(args.gate, "gate");
  check_modulation(args.scale, "scale");
  require_pointer(args.dy, "dy");
  require_pointer(args.dr, "dr");
  const auto check_output = [&](const X* output, std::string_view argument) {
    require_pointer(output, argument);
    require_apart(output, argument, args.r, "r");
    require_apart(output, argument, args.branch, "branch");
    require_apart(output, argument, args.dy, "dy");
    require_apart(output, argument, args.dr, "dr");
  };
  check_output(args.dresidual, "dresidual");
  check_output(args.dbranch, "dbranch");
  require_apart(args.dbranch, "dbranch", args.dresidual, "dresidual");
}

}  // namespace adaptiveload::detail
