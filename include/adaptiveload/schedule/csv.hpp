#pragma once

#include <adaptiveload/schedule/csv_reader.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/tokens.hpp>
#include <cerrno>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaptiveload {

/// A shape of a corpus and its share of the samples, in any unit.
struct weighted_shape {
  video_shape shape;
  double weight = 1;

  friend constexpr bool operator==(const weighted_shape&, const weighted_shape&) = default;
};

/// Steps that were measured, and shapes of which a step ran out of memory.
struct measured_steps {
  std::vector<measurement> measurements;
  std::vector<step_shape> out_of_memory;
};

/// Reads measured steps: columns `batch_size`, `sequence_length`, `step_ms` and, where the file has
/// it, `peak_memory_bytes` (a field of it may be empty). A step that ran out of memory has
/// `out_of_memory` as its `step_ms`.
///
/// Throws `csv_error` with file, line and column on anything else that is not a positive number.
[[nodiscard]] inline measured_steps read_measured_steps(std::istream& in, const std::string& name) {
  csv_reader rows(in, name);
  const auto batch_size = rows.column("batch_size");
  const auto sequence_length = rows.column("sequence_length");
  const auto step_ms = rows.column("step_ms");
  const auto peak_memory = rows.find_column("peak_memory_bytes");
  measured_steps steps;
  while (rows.next()) {
    measurement m{.batch_size = rows.positive<std::int64_t>(batch_size),
                  .sequence_length = rows.positive<std::int64_t>(sequence_length)};
    if (m.batch_size > INT64_MAX / m.sequence_length) {
      rows.reject(batch_size, "fewer than 2^63 tokens");
    }
    if (rows.text(step_ms) == "out_of_memory") {
      steps.out_of_memory.push_back(m.shape());
      continue;
    }
    m.step_ms = rows.positive<double>(step_ms);
    if (peak_memory && !rows.text(*peak_memory).empty()) {
      m.peak_memory_bytes = rows.positive<std::int64_t>(*peak_memory);
    }
    steps.measurements.push_back(m);
  }
  return steps;
}

/// As `read_measured_steps`, passing over the steps that ran out of memory.
[[nodiscard]] inline std::vector<measurement> read_measurements(std::istream& in,
                                                                const std::string& name) {
  return read_measured_steps(in, name).measurements;
}

/// Reads shapes and their shares: columns `frames`, `height`, `width` in pixels and, where the file
/// has it, `weight` (1 for each otherwise). Throws `csv_error` as `read_measurements` does.
[[nodiscard]] inline std::vector<weighted_shape> read_shapes(std::istream& in,
                                                             const std::string& name) {
  csv_reader rows(in, name);
  const auto frames = rows.column("frames");
  const auto height = rows.column("height");
  const auto width = rows.column("width");
  const auto weight = rows.find_column("weight");
  std::vector<weighted_shape> shapes;
  while (rows.next()) {
    shapes.push_back({{.frames = rows.positive<std::int64_t>(frames),
                       .height = rows.positive<std::int64_t>(height),
                       .width = rows.positive<std::int64_t>(width)},
                      weight ? rows.positive<double>(*weight) : 1.0});
  }
  return shapes;
}

/// Calls `on_sample(video_shape)` for each row of a manifest, which has one sample a row: columns
/// `frames`, `height`, `width` in pixels. Needs constant memory whatever the file's size.
///
/// Throws `csv_error` as `read_measurements` does, and where `on_sample` throws
/// `std::invalid_argument` about a sample.
template <std::invocable<video_shape> OnSample>
void read_manifest(std::istream& in, const std::string& name, OnSample on_sample) {
  csv_reader rows(in, name);
  const auto frames = rows.column("frames");
  const auto height = rows.column("height");
  const auto width = rows.column("width");
  while (rows.next()) {
    const video_shape sample{.frames = rows.positive<std::int64_t>(frames),
                             .height = rows.positive<std::int64_t>(height),
                             .width = rows.positive<std::int64_t>(width)};
    try {
      on_sample(sample);
    } catch (const std::invalid_argument& error) {
      throw csv_error(name + ":" + std::to_string(rows.line()) + ":1: " + error.what());
    }
  }
}

namespace detail {

/// A file opened for reading, or an error that says why it isn't.
inline std::ifstream open_csv(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw csv_error(path.string() + ": cannot be opened: " + std::strerror(errno));
  return in;
}

}  // namespace detail

/// The same from a file.
[[nodiscard]] inline measured_steps read_measured_steps(const std::filesystem::path& path) {
  std::ifstream in = detail::open_csv(path);
  return read_measured_steps(in, path.string());
}

/// The same from a file.
[[nodiscard]] inline std::vector<measurement> read_measurements(const std::filesystem::path& path) {
  std::ifstream in = detail::open_csv(path);
  return read_measurements(in, path.string());
}

/// The same from a file.
[[nodiscard]] inline std::vector<weighted_shape> read_shapes(const std::filesystem::path& path) {
  std::ifstream in = detail::open_csv(path);
  return read_shapes(in, path.string());
}

/// The same from a file.
template <std::invocable<video_shape> OnSample>
void read_manifest(const std::filesystem::path& path, OnSample on_sample) {
  std::ifstream in = detail::open_csv(path);
  read_manifest(in, path.string(), std::move(on_sample));
}

}  // namespace adaptiveload
