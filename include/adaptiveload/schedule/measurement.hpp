#pragma once

#include <adaptiveload/support/error.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace adaptiveload {

/// The shape of a training step.
struct step_shape {
  std::int64_t batch_size = 0;
  std::int64_t sequence_length = 0;  ///< tokens per sample

  /// Tokens of the whole micro-batch.
  [[nodiscard]] constexpr std::int64_t tokens() const { return batch_size * sequence_length; }

  friend constexpr bool operator==(const step_shape&, const step_shape&) = default;
  friend constexpr bool operator<(const step_shape& x, const step_shape& y) {
    return std::pair(x.batch_size, x.sequence_length) < std::pair(y.batch_size, y.sequence_length);
  }
};

/// One measured training step: its shape, its time, and the memory it needed where that is known.
struct measurement {
  std::int64_t batch_size = 0;
  std::int64_t sequence_length = 0;  ///< tokens per sample
  double step_ms = 0;                ///< forward, backward and optimizer, in milliseconds
  std::optional<std::int64_t> peak_memory_bytes = std::nullopt;

  [[nodiscard]] constexpr step_shape shape() const { return {batch_size, sequence_length}; }

  /// Tokens of the whole micro-batch.
  [[nodiscard]] constexpr std::int64_t tokens() const { return batch_size * sequence_length; }

  friend constexpr bool operator==(const measurement&, const measurement&) = default;
};

namespace detail {

/// Throws `std::invalid_argument` naming the first measurement, and its field, that cannot be one.
inline void check_measurements(std::span<const measurement> measurements) {
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    const measurement& m = measurements[i];
    const auto field = [i](const char* name) {
      return "measurements[" + std::to_string(i) + "]." + name;
    };
    if (m.batch_size < 1) throw_invalid(field("batch_size"), m.batch_size, "1 or more");
    if (m.sequence_length < 1) {
      throw_invalid(field("sequence_length"), m.sequence_length, "1 or more");
    }
    if (m.batch_size > INT64_MAX / m.sequence_length) {
      throw_invalid(field("batch_size"), m.batch_size, "fewer than 2^63 tokens");
    }
    if (!std::isfinite(m.step_ms) || m.step_ms <= 0) {
      throw_invalid(field("step_ms"), m.step_ms, "finite and above 0");
    }
    if (m.peak_memory_bytes && *m.peak_memory_bytes < 1) {
      throw_invalid(field("peak_memory_bytes"), *m.peak_memory_bytes, "1 or more, or absent");
    }
  }
}

}  // namespace detail
}  // namespace adaptiveload
