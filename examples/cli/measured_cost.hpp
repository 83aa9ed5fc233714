#pragma once

#include <adaptiveload/schedule.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace adaptiveload::cli {

/// Measured steps, and the cost and the peak memory fitted to them.
struct measured_cost {
  measured_steps steps;
  cost_model cost;
  std::optional<memory_model> memory;  ///< where the file has peaks of two or more sizes
};

/// Does `work` on what a file holds; what it throws names the file.
template <class Work>
auto naming(const std::string& file, Work work) {
  try {
    return work();
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(file + ": " + error.what());
  }
}

inline measured_cost read_measured_cost(const std::filesystem::path& file) {
  measured_steps steps = read_measured_steps(file);
  cost_model cost = naming(file.string(), [&] { return fit_cost_model(steps.measurements); });
  std::set<std::int64_t> sizes;
  for (const measurement& m : steps.measurements) {
    if (m.peak_memory_bytes) sizes.insert(m.tokens());
  }
  std::optional<memory_model> memory;
  if (sizes.size() >= 2) memory = fit_memory_model(steps.measurements, steps.out_of_memory);
  return {std::move(steps), std::move(cost), memory};
}

}  // namespace adaptiveload::cli
