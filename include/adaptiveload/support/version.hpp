#pragma once

namespace adaptiveload {

/// The library's version; the package that `find_package(adaptiveload)` finds has the same.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

}  // namespace adaptiveload
