#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace adaptiveload::detail {

/// Throws `std::invalid_argument` saying "<argument> is <value>; allowed: <allowed>".
template <class Value>
[[noreturn]] void throw_invalid(std::string_view argument, const Value& value,
                                std::string_view allowed) {
  std::ostringstream message;
  message.precision(17);
  message << argument << " is " << value << "; allowed: " << allowed;
  throw std::invalid_argument(message.str());
}

/// Throws as `throw_invalid` does unless `condition` holds. Usable in constant expressions, where
/// a violated condition is a compile-time error.
template <class Value>
constexpr void require(bool condition, std::string_view argument, const Value& value,
                       std::string_view allowed) {
  if (!condition) throw_invalid(argument, value, allowed);
}

}  // namespace adaptiveload::detail
