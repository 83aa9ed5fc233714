#pragma once

#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

namespace adaptiveload::detail {

/// The CSV file that a shape benchmark appends each result to as it comes, and resumes from.
class shape_record {
 public:
  /// Reads what the file holds, or begins it; an empty path keeps no file.
  explicit shape_record(const std::filesystem::path& path) : path_(path) {
    if (path.empty()) return;
    if (std::filesystem::exists(path)) read();
    const bool begin = !std::filesystem::exists(path) || std::filesystem::file_size(path) == 0;
    out_.open(path, std::ios::app | std::ios::binary);
    if (begin) out_ << columns << '\n' << std::flush;
    check();
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

  void append(const step_shape& shape) {
    write(std::to_string(shape.batch_size) + ',' + std::to_string(shape.sequence_length) +
          ",out_of_memory,,1\n");
  }

 private:
  static constexpr const char* columns =
      "batch_size,sequence_length,step_ms,peak_memory_bytes,repetitions";

  /// A run that was killed while it wrote leaves half a line: that measurement is made again.
  void read() {
    std::ifstream in = open_csv(path_);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    in.close();
    const std::string header = std::string(columns) + '\n';
    if (!text.starts_with(header) && !header.starts_with(text)) {
      throw csv_error(path_.string() + ":1:1: is not a record of this benchmark; its header is " +
                      columns);
    }
    const std::size_t whole = text.rfind('\n') + 1;  // 0 where there is none
    if (whole < text.size()) std::filesystem::resize_file(path_, whole);
    text.resize(whole);
    if (text.empty()) return;
    std::istringstream lines(std::move(text));
    steps_ = read_measured_steps(lines, path_.string());
  }

  void write(const std::string& row) {
    if (path_.empty()) return;
    out_ << row << std::flush;
    check();
  }

  void check() const {
    if (!out_) throw csv_error(path_.string() + ": cannot be written: " + std::strerror(errno));
  }

  std::filesystem::path path_;
  measured_steps steps_;
  std::ofstream out_;
};

}  // namespace adaptiveload::detail
