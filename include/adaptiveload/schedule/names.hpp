#pragma once

#include <adaptiveload/schedule/batch_size.hpp>
#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/deal.hpp>
#include <adaptiveload/schedule/epoch_options.hpp>
#include <adaptiveload/schedule/strategy.hpp>
#include <adaptiveload/support/error.hpp>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace adaptiveload {

namespace detail {

/// The names of an enumeration's values, in their order, and what the enumeration is called.
template <class Enum>
struct enum_names;

template <>
struct enum_names<cost_form> {
  static constexpr std::string_view what = "form";
  static constexpr std::array<std::string_view, 6> names{
      "power",       "quadratic", "floored power", "floored quadratic", "floored polynomial",
      "interpolated"};
};
template <>
struct enum_names<strategy> {
  static constexpr std::string_view what = "strategy";
  static constexpr std::array<std::string_view, 3> names{"equal tokens", "dual constraint",
                                                         "equal time"};
};
template <>
struct enum_names<ranks_wait> {
  static constexpr std::string_view what = "ranks_wait";
  static constexpr std::array<std::string_view, 2> names{"every step", "every micro-batch"};
};
template <>
struct enum_names<dealing> {
  static constexpr std::string_view what = "dealing";
  static constexpr std::array<std::string_view, 2> names{"balanced", "as drawn"};
};
template <>
struct enum_names<gradient_mean> {
  static constexpr std::string_view what = "mean_over";
  static constexpr std::array<std::string_view, 2> names{"samples", "tokens"};
};
template <>
struct enum_names<batch_bound> {
  static constexpr std::string_view what = "bound";
  static constexpr std::array<std::string_view, 3> names{"memory", "compute", "single sample"};
};

}  // namespace detail

/// The name of a `cost_form`, `strategy`, `ranks_wait`, `dealing`, `gradient_mean` or `batch_bound`
/// in files and on the terminal: "equal time", "every micro-batch".
template <class Enum>
[[nodiscard]] constexpr std::string_view name_of(Enum value) {
  constexpr auto& names = detail::enum_names<Enum>::names;
  const auto index = static_cast<std::size_t>(value);
  detail::require(index < names.size(), detail::enum_names<Enum>::what, index,
                  "one of the enumerators");
  return names[index];
}

/// The value with that name. Throws `std::invalid_argument` that lists the names.
template <class Enum>
[[nodiscard]] constexpr Enum named(std::string_view name) {
  std::string allowed;
  for (std::size_t i = 0; i < detail::enum_names<Enum>::names.size(); ++i) {
    const std::string_view each = detail::enum_names<Enum>::names[i];
    if (each == name) return static_cast<Enum>(i);
    allowed += (i == 0 ? "\"" : ", \"") + std::string(each) + "\"";
  }
  detail::throw_invalid(detail::enum_names<Enum>::what, '"' + std::string(name) + '"', allowed);
}

}  // namespace adaptiveload
