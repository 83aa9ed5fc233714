#pragma once

#include <cstddef>

namespace simt {

/// The dynamic shared memory of the block that is about to run: exactly `bytes`, which nobody has
/// written yet.
class shared_region {
 public:
  explicit shared_region(std::size_t bytes);
  ~shared_region();
  shared_region(const shared_region&) = delete;
};

}  // namespace simt
