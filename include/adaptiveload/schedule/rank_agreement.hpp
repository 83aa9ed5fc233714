#pragma once

#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace adaptiveload::detail {

/// The maximum over all ranks, by a caller's collective, for work that all of them do alike; where
/// one rank's work fails, it fails on all instead of leaving the others in the collective.
class rank_agreement {
 public:
  explicit rank_agreement(const std::function<double(double)>& maximum) : maximum_(maximum) {}

  /// What is done now, for the error on the ranks whose own work did not fail.
  void doing(std::string what) { doing_ = std::move(what); }

  /// The maximum of a finite number that each rank passes. Throws `std::runtime_error` where
  /// another rank's work failed.
  double maximum(double value) {
    met_ = true;  // what is thrown from here on, the others know of or cannot be told
    const double most = maximum_(value);
    if (most == failed) {
      throw std::runtime_error("another rank failed" + (doing_.empty() ? "" : " at " + doing_));
    }
    met_ = false;
    return most;
  }

  /// Does `work`, which meets the other ranks in `maximum` alone and at its end has just done so.
  /// Where it throws, the others, which wait there, are told.
  template <class Work>
  auto all_or_none(Work work) {
    try {
      return work();
    } catch (...) {
      const std::exception_ptr mine = std::current_exception();
      if (!met_) tell();
      std::rethrow_exception(mine);
    }
  }

 private:
  static constexpr double failed = std::numeric_limits<double>::infinity();

  void tell() {
    try {
      maximum_(failed);
    } catch (...) {  // the work's own error says more
    }
  }

  const std::function<double(double)>& maximum_;
  std::string doing_;
  bool met_ = false;
};

}  // namespace adaptiveload::detail
