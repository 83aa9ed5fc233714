#pragma once

#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>

namespace adaptiveload {

/// What one micro-batch may hold: `batch * S <= max_tokens` and `batch * S^exponent <= max_compute`
/// for samples of S tokens (the dual constraint of Guo et al. 2026, arXiv 2605.17923).
struct batch_limits {
  std::int64_t max_tokens;                                       ///< M_mem, tokens; at least 1
  double max_compute = std::numeric_limits<double>::infinity();  ///< M_comp, in tokens^exponent
  double exponent = 2.0;                                         ///< p, in [0, 3]
};

/// Which limit sets a bucket's batch size; `single_sample`: one sample alone passes a limit.
enum class batch_bound { memory, compute, single_sample };

/// The longest sequence that the planning functions take: 2^31 tokens.
inline constexpr std::int64_t longest_sequence = std::int64_t{1} << 31;

namespace detail {

constexpr void require_sequence_length(std::int64_t sequence_length) {
  require(sequence_length >= 1 && sequence_length <= longest_sequence, "sequence_length",
          sequence_length, "1 to 2^31 tokens");
}

/// The integer m with m^degree = value, or 0 where there is none.
constexpr std::int64_t perfect_root(std::int64_t value, int degree) {
  std::int64_t low = 1;
  std::int64_t high = value;
  while (low <= high) {
    const std::int64_t root = low + (high - low) / 2;
    std::int64_t rest = value;  // value / root^degree, rounded down at each division
    bool exact = true;
    for (int i = 0; i < degree; ++i) {
      exact = exact && rest % root == 0;
      rest /= root;
    }
    if (rest == 1 && exact) return root;
    if (rest >= 1) {
      low = root + 1;
    } else {
      high = root - 1;
    }
  }
  return 0;
}

constexpr long double square_root(
    long double value) {  // of a value >= 1; std::sqrt isn't constexpr
  long double root = (value + 1) / 2;
  for (;;) {
    const long double next = (root + value / root) / 2;
    if (next >= root) return root;
    root = next;
  }
}

/// base^exponent for base >= 1: whole powers, then one square root a bit of the fraction.
constexpr long double power(long double base, double exponent) {
  long double result = 1;
  for (; exponent >= 1; exponent -= 1) result *= base;
  for (long double root = base; exponent > 0;) {
    root = square_root(root);
    exponent *= 2;
    if (exponent >= 1) {
      result *= root;
      exponent -= 1;
    }
  }
  return result;
}

/// floor(max_compute / S^exponent), at most 2^63 - 1.
///
/// Where S^exponent is an integer, the quotient is exact. Elsewhere it is irrational, and a limit
/// that is `n * S^exponent` but for the rounding of doubles gives n.
constexpr std::int64_t compute_quotient(std::int64_t sequence_length, double max_compute,
                                        double exponent) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  // Below 2^127 the limit fits the integer type; above, S^3 <= 2^93 leaves more than memory can.
  if (max_compute >= 0x1p127) return largest;
  // The exponent as a fraction n / d: 1.9 is meant as 19 / 10, although no double is 1.9. No
  // sequence of up to 2^31 tokens but one token is a perfect power of more than 31.
  for (int d = 1; d <= 31; ++d) {
    const int n = static_cast<int>(exponent * d + 0.5);
    if (static_cast<double>(n) / d != exponent) continue;
    const std::int64_t root = perfect_root(sequence_length, d);
    if (root == 0) break;
    __extension__ auto quotient = static_cast<unsigned __int128>(max_compute);
    // floor(x / (a b)) = floor(floor(x / a) / b) for integers a and b: nothing overflows.
    for (int i = 0; i < n; ++i) quotient /= static_cast<std::uint64_t>(root);
    return quotient > static_cast<std::uint64_t>(largest) ? largest
                                                          : static_cast<std::int64_t>(quotient);
  }
  constexpr long double rounding = 1 + 0x1p-51L;  // n * pow(S, p) is within 1.5 units of 2^-52
  const long double quotient = max_compute * rounding / power(sequence_length, exponent);
  return quotient >= 0x1p63L ? largest : static_cast<std::int64_t>(quotient);
}

struct bounded_batch {
  std::int64_t batch_size;
  batch_bound bound;
};

constexpr bounded_batch bound_batch(std::int64_t memory, std::int64_t compute) {
  if (memory < 1 || compute < 1) return {1, batch_bound::single_sample};
  if (memory <= compute) return {memory, batch_bound::memory};
  return {compute, batch_bound::compute};
}

constexpr bounded_batch bound_batch(std::int64_t sequence_length, const batch_limits& limits) {
  require_sequence_length(sequence_length);
  require(limits.max_tokens >= 1, "max_tokens", limits.max_tokens, "at least 1");
  require(limits.max_compute > 0, "max_compute", limits.max_compute, "above 0, or infinity");
  require(limits.exponent >= 0 && limits.exponent <= 3, "exponent", limits.exponent, "0 to 3");
  return bound_batch(limits.max_tokens / sequence_length,
                     compute_quotient(sequence_length, limits.max_compute, limits.exponent));
}

}  // namespace detail

/// Samples of `sequence_length` tokens in a micro-batch under both limits:
/// max(1, min(floor(max_tokens / S), floor(max_compute / S^exponent))).
///
/// Exact wherever a quotient is an integer, for fractional exponents too; usable at compile time.
/// A sample beyond a limit still makes a batch of one. Throws `std::invalid_argument` unless
/// 1 <= sequence_length <= 2^31, max_tokens >= 1, max_compute > 0 and 0 <= exponent <= 3.
/// Source: Guo et al. 2026, arXiv 2605.17923.
constexpr std::int64_t batch_size(std::int64_t sequence_length, const batch_limits& limits) {
  return detail::bound_batch(sequence_length, limits).batch_size;
}

}  // namespace adaptiveload
