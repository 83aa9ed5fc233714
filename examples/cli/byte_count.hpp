#pragma once

#include <adaptiveload/support/error.hpp>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

namespace adaptiveload::cli {

/// Bytes from text: a number and a unit, as in "140GB", "131.5 GiB" or "150000000000".
///
/// Throws `std::invalid_argument` on anything else, and outside 1 byte to 2^63 - 1.
inline std::int64_t byte_count(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 10> units{{{"", 1},
                                                                       {"B", 1},
                                                                       {"kB", 1e3},
                                                                       {"MB", 1e6},
                                                                       {"GB", 1e9},
                                                                       {"TB", 1e12},
                                                                       {"KiB", 0x1p10},
                                                                       {"MiB", 0x1p20},
                                                                       {"GiB", 0x1p30},
                                                                       {"TiB", 0x1p40}}};
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, bytes] : units) {
    if (error != std::errc{} || unit != name) continue;
    const double total = number * bytes;
    if (total >= 1 && total < 0x1p63) return static_cast<std::int64_t>(total);
  }
  detail::throw_invalid("memory", '"' + std::string(text) + '"',
                        "bytes with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB), as in 140GB");
}

}  // namespace adaptiveload::cli
