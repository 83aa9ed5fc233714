#pragma once

#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

namespace adaptiveload::detail {

/// The CSV file that a shape benchmark appends each result to as it comes, and resumes from.
class shape_record {
 public:
  /// Reads what the file holds, or begins it; an empty path keeps no file.
  explicit shape_record(const std::filesystem::path& path) {
    if (path.empty()) return;
    if (std::filesystem::exists(path) && std::filesystem::file_size(path) > 0) {
      drop_torn_line(path);
    }
    if (std::filesystem::exists(path) && std::filesystem::file_size(path) > 0) {
      steps_ = read_measured_steps(path);
      std::ifstream in = open_csv(path);
      std::string header;
      std::getline(in, header);
      if (header != columns) {
        throw csv_error(path.string() + ":1:1: is not a record of this benchmark; its header is " +
                        columns);
      }
    }
    const bool begin = !std::filesystem::exists(path) || std::filesystem::file_size(path) == 0;
    out_.exceptions(std::ios::failbit | std::ios::badbit);
    out_.open(path, std::ios::app | std::ios::binary);
    if (begin) out_ << columns << '\n' << std::flush;
  }

  [[nodiscard]] const measured_steps& steps() const { return steps_; }

  void append(const measurement& m, std::size_t repetitions) {
    std::ostringstream row;
    row.precision(std::numeric_limits<double>::max_digits10);
    row << m.batch_size << ',' << m.sequence_length << ',' << m.step_ms << ',';
    if (m.peak_memory_bytes) row << *m.peak_memory_bytes;
    row << ',' << repetitions << '\n';
    write(row.str());
  }

  void append(const out_of_memory_shape& shape) {
    write(std::to_string(shape.batch_size) + ',' + std::to_string(shape.sequence_length) +
          ",out_of_memory,,1\n");
  }

 private:
  static constexpr const char* columns =
      "batch_size,sequence_length,step_ms,peak_memory_bytes,repetitions";

  /// A run that was killed while it wrote leaves half a line: that measurement is made again.
  static void drop_torn_line(const std::filesystem::path& path) {
    std::ifstream in = open_csv(path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    in.close();
    if (text.ends_with('\n')) return;
    const auto newline = text.rfind('\n');
    std::filesystem::resize_file(path, newline == std::string::npos ? 0 : newline + 1);
  }

  void write(const std::string& row) {
    if (out_.is_open()) out_ << row << std::flush;
  }

  measured_steps steps_;
  std::ofstream out_;
};

}  // namespace adaptiveload::detail
