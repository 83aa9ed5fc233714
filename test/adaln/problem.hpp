#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "tensor.hpp"

/// What may be unusual about a problem.
struct problem_options {
  layout scale = layout::dense, shift = layout::dense;
  std::string_view shifted = "";  ///< the argument (or "all") that lies one element off alignment
  bool in_place = false;          ///< y lies where x does, if their types are one
  bool save_statistics = true;    ///< if not, there is no backward
  float mean = 100;               ///< rows have means of up to as many deviations
};

/// An operation, forward and backward, on random inputs.
class problem {
 public:
  virtual ~problem() = default;

  /// Poisons the outputs, then computes them all.
  virtual void run() = 0;

  /// Expects every output near the host implementation's in double, and nothing written beside.
  virtual void expect_accurate() const = 0;

  struct output {
    std::string_view name;
    std::span<const std::byte> bytes;
    bool by_rows;  ///< each row depends on the same row of the inputs, and on nothing else of them
  };
  virtual std::vector<output> outputs() const = 0;

  /// The same operation on some of the rows of one sample alone, with the same inputs.
  virtual std::unique_ptr<problem> rows_alone(std::int64_t sample, std::int64_t first_token,
                                              std::int64_t tokens) const = 0;
};

/// An operation and its storage types.
struct operation {
  const char* name;
  std::unique_ptr<problem> (*make)(const adaptiveload::activation_shape&, const problem_options&);
  std::vector<std::string_view> arguments;  ///< those that may be shifted
};

const std::vector<operation>& operations();

/// Calls `f(0)` ... `f(count - 1)` on all cores.
template <class F>
void parallel_for(std::int64_t count, F f) {
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) f(i);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::thread::hardware_concurrency() && i < count; ++i) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& other : others) other.join();
}
