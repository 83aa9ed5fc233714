#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/support/device.cuh>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "modulations.hpp"

/// What may be unusual about a problem.
struct problem_options {
  std::vector<std::int64_t> lengths = {};  ///< of the samples, if they are packed
  adaptiveload::norm kind = adaptiveload::norm::layer;
  adaptiveload::modulate form = adaptiveload::modulate::one_plus_scale;
  layout gate = layout::dense, scale = layout::dense, shift = layout::dense;
  std::string_view table = "";  ///< the modulation (or "all") that has one
  bool has_shift = true;
  wanted dgate = wanted::each, dscale = wanted::each, dshift = wanted::each;
  std::string_view shifted = "";  ///< the argument (or "all") that lies one element off alignment
  bool in_place = false;          ///< outputs lie where inputs do, if their types are one
  bool save_statistics = true;    ///< if not, there is no backward
  float mean = 100;               ///< rows have means of up to as many deviations
};

/// An operation, forward and backward, on random inputs.
class problem {
 public:
  virtual ~problem() = default;

  /// Computes all outputs anew.
  void run() {
    prepare();
    launch();
    finish();
  }

  /// Inputs on the device, outputs poisoned.
  virtual void prepare() = 0;
  virtual void launch(cudaStream_t stream = nullptr) = 0;
  /// Outputs on the host.
  virtual void finish() = 0;

  /// Expects every output near the host implementation's in double, and nothing written beside.
  virtual void expect_accurate() const = 0;

  struct output {
    std::string name;
    std::span<const std::byte> bytes;
    bool by_rows;  ///< each row depends on the same row of the inputs, and on nothing else of them
  };
  virtual std::vector<output> outputs() const = 0;

  /// The same operation on some rows of one sample alone, with the same inputs: rows of one group,
  /// or all rows of some groups.
  virtual std::unique_ptr<problem> rows_alone(std::int64_t first, std::int64_t count) const = 0;
};

/// An operation and its storage types.
struct operation {
  std::string name;
  std::unique_ptr<problem> (*make)(const adaptiveload::activation_shape&, const problem_options&);
  std::vector<std::string> modulations;
  std::vector<std::string> arguments;  ///< the others of which an element is one of a row
  std::size_t (*scratch_bytes)(const adaptiveload::activation_shape&);

  friend std::ostream& operator<<(std::ostream& out, const operation& op) { return out << op.name; }
};

template <class Problem>
std::unique_ptr<problem> make(const adaptiveload::activation_shape& shape,
                              const problem_options& options) {
  return std::make_unique<Problem>(shape, options);
}

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
